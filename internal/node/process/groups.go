package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// defaultParent is the control group that holds those of containers.
const defaultParent = "muster"

// hierarchies are the control group file systems of this machine.
type hierarchies struct {
	unified     string            // the mount point of version 2. Empty: none
	controllers []string          // that version 2 offers
	legacy      map[string]string // controller of version 1 to mount point
}

func readHierarchies() hierarchies {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return hierarchies{}
	}
	return hierarchiesOf(string(data))
}

// hierarchiesOf finds them in a mountinfo file.
func hierarchiesOf(mountinfo string) hierarchies {
	h := hierarchies{legacy: map[string]string{}}
	for line := range strings.Lines(mountinfo) {
		// "... mount-point options [optional fields] - type source super-options"
		before, after, ok := strings.Cut(line, " - ")
		fields, tail := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(tail) < 3 {
			continue
		}
		switch tail[0] {
		case "cgroup2":
			if h.unified == "" {
				h.unified = fields[4]
			}
		case "cgroup":
			for option := range strings.SplitSeq(tail[2], ",") {
				if _, seen := h.legacy[option]; !seen {
					h.legacy[option] = fields[4]
				}
			}
		}
	}
	if h.unified != "" {
		list, _ := os.ReadFile(filepath.Join(h.unified, "cgroup.controllers"))
		h.controllers = strings.Fields(string(list))
	}
	return h
}

// setting is one file of a control group, named as in each version.
type setting struct {
	controller string
	unified    [][2]string // file and value
	legacy     [][2]string
}

// settings turns limits into what is written. Files in parentheses need not
// exist.
func settings(l *Limits) []setting {
	if l == nil {
		return nil
	}
	var all []setting
	if l.MemoryBytes > 0 {
		bytes := strconv.FormatInt(l.MemoryBytes, 10)
		all = append(all, setting{"memory",
			[][2]string{{"memory.max", bytes}, {"(memory.swap.max)", "0"}, {"(memory.oom.group)", "1"}},
			[][2]string{{"memory.limit_in_bytes", bytes}, {"(memory.memsw.limit_in_bytes)", bytes}}})
	}
	if l.CPUMillis > 0 || l.CPURequestMillis > 0 {
		shares := max(2, min(262144, l.CPURequestMillis*1024/1000))
		weight := 1 + (shares-2)*9999/262142
		s := setting{"cpu",
			[][2]string{{"cpu.weight", strconv.FormatInt(weight, 10)}},
			[][2]string{{"cpu.shares", strconv.FormatInt(shares, 10)}}}
		if l.CPUMillis > 0 {
			const period = 100_000 // microseconds, and the least quota is 1,000
			quota := strconv.FormatInt(max(1000, l.CPUMillis*period/1000), 10)
			s.unified = append(s.unified, [2]string{"cpu.max", quota + " " + strconv.Itoa(period)})
			s.legacy = append(s.legacy, [2]string{"cpu.cfs_period_us", strconv.Itoa(period)}, [2]string{"cpu.cfs_quota_us", quota})
		}
		all = append(all, s)
	}
	if l.PIDs > 0 {
		most := strconv.FormatInt(l.PIDs, 10)
		all = append(all, setting{pidsController, [][2]string{{"pids.max", most}}, [][2]string{{"pids.max", most}}})
	}
	return all
}

// makeGroups makes the control groups of a container: those that its limits
// and those of its user need, and one of version 2, where there is that, to find
// and kill the tree by. The latter is a bonus, and its absence no error.
func makeGroups(h hierarchies, s Spec) (groups []contract.Group, err error) {
	parent := parentOf(s)
	name := strings.ReplaceAll(s.ID, "/", "_")
	all := settings(s.Limits)
	if processesOf(s) > 0 && h.boundsUsers() {
		all = withPIDs(all)
	}
	defer func() {
		if err != nil {
			_ = removeGroups(groups)
			groups = nil
		}
	}()
	needed := controllersOf(all)
	onUnified := len(needed) > 0 && h.offers(needed)
	if onUnified || s.Isolation == nil && h.unified != "" {
		enable := needed
		if !onUnified {
			enable = nil
		}
		path, err := makeUnified(h.unified, userParent(parent, s), name, enable)
		if err == nil && onUnified {
			err = boundUser(filepath.Dir(path), s)
		}
		switch {
		case err == nil:
			groups = append(groups, contract.Group{Path: path, Unified: true, Memory: onUnified && slices.Contains(needed, "memory")})
		case onUnified:
			return groups, err
		}
	}
	for _, set := range all {
		files := set.unified
		if onUnified {
			if err := writeGroup(groups[0].Path, files); err != nil {
				return groups, err
			}
			continue
		}
		mount, ok := h.legacy[set.controller]
		if !ok {
			return groups, fmt.Errorf("a %s limit cannot be set: this machine offers no %s control group", set.controller, set.controller)
		}
		within := parent
		if set.controller == pidsController {
			within = userParent(parent, s) // one for all would share CPU time by users, not by requests
		}
		path := filepath.Join(mount, within, name)
		err := os.MkdirAll(path, 0o755)
		if err == nil {
			err = stamp(path)
		}
		if err == nil && set.controller == pidsController {
			err = boundUser(filepath.Dir(path), s)
		}
		if err != nil {
			return groups, fmt.Errorf("a %s limit cannot be set: %w", set.controller, err)
		}
		groups = append(groups, contract.Group{Path: path, Memory: set.controller == "memory"})
		if err := writeGroup(path, set.legacy); err != nil {
			return groups, err
		}
	}
	if onUnified && processesOf(s) > 0 {
		return groups, weigh(filepath.Dir(groups[0].Path))
	}
	return groups, nil
}

func controllersOf(all []setting) []string {
	var names []string
	for _, s := range all {
		names = append(names, s.controller)
	}
	return names
}

// offers says whether version 2 has all of some controllers.
func (h hierarchies) offers(controllers []string) bool {
	for _, c := range controllers {
		if !slices.Contains(h.controllers, c) {
			return false
		}
	}
	return h.unified != ""
}

// makeUnified makes a group of version 2, with controllers enabled on the way.
func makeUnified(mount, parent, name string, controllers []string) (string, error) {
	path := mount
	enable := "+" + strings.Join(controllers, " +")
	for step := range strings.SplitSeq(parent+"/"+name, "/") {
		if len(controllers) > 0 {
			err := os.WriteFile(filepath.Join(path, "cgroup.subtree_control"), []byte(enable), 0)
			if err != nil {
				return "", fmt.Errorf("limits cannot be set: enabling control group controllers in %s: %w", path, err)
			}
		}
		path = filepath.Join(path, step)
		if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("limits cannot be set: making a control group: %w", err)
		}
	}
	if err := stamp(path); err != nil {
		return "", fmt.Errorf("limits cannot be set: dating a control group: %w", err)
	}
	return path, nil
}

// stamp dates a control group's folder. Left to itself, it bears the time at
// which the kernel happened to look at it last.
func stamp(path string) error {
	now := time.Now()
	return os.Chtimes(path, now, now)
}

// abandoned is the age at which a control group that nothing lives in is
// nobody's: a container enters its own within moments of making it.
const abandoned = 10 * time.Minute

// sweepGroups removes the control groups that containers left whose folders
// were deleted before anybody could. The kernel refuses to remove those that
// something lives in, whoever's they are.
func sweepGroups(h hierarchies, parent string, now time.Time) {
	mounts := []string{h.unified}
	for _, mount := range h.legacy {
		mounts = append(mounts, mount)
	}
	slices.Sort(mounts)
	for _, mount := range slices.Compact(mounts) {
		if mount == "" {
			continue
		}
		folder := filepath.Join(mount, parent)
		users, err := os.ReadDir(filepath.Join(folder, usersFolder))
		if err == nil {
			for _, user := range users {
				sweepFolder(filepath.Join(folder, usersFolder, user.Name()), now)
			}
			sweepFolder(filepath.Join(folder, usersFolder), now)
		}
		sweepFolder(folder, now)
	}
}

// sweepFolder removes the abandoned control groups of one folder.
func sweepFolder(folder string, now time.Time) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return // no container ever had a group there
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && e.IsDir() && now.Sub(info.ModTime()) > abandoned {
			_ = unix.Rmdir(filepath.Join(folder, e.Name()))
		}
	}
}

func writeGroup(path string, files [][2]string) error {
	for _, f := range files {
		file, optional := strings.CutPrefix(f[0], "(")
		file = filepath.Join(path, strings.TrimSuffix(file, ")"))
		if _, err := os.Stat(file); optional && err != nil {
			continue
		}
		if err := os.WriteFile(file, []byte(f[1]), 0); err != nil {
			return fmt.Errorf("a limit cannot be set: writing %s to %s: %w", f[1], file, err)
		}
	}
	return nil
}

// removeGroups removes control groups that nothing lives in any more.
func removeGroups(groups []contract.Group) error {
	const patience = time.Second // the kernel lets go of the last one late
	until := time.Now().Add(patience)
	var errs []error
	for _, g := range groups {
		for {
			err := os.Remove(g.Path)
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				break
			}
			if !errors.Is(err, unix.EBUSY) || time.Now().After(until) {
				errs = append(errs, fmt.Errorf("removing a control group: %w", err))
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	leaveUsers(groups)
	return errors.Join(errs...)
}

// LimitsAvailable says whether this machine lets Limits be set, and if not,
// why. It tries.
func LimitsAvailable() (ok bool, reason string) { return limitsAvailable(readHierarchies()) }

func limitsAvailable(h hierarchies) (ok bool, reason string) {
	needed := []string{"memory", "cpu", "pids"}
	if h.offers(needed) {
		name := fmt.Sprintf("probe-%d", os.Getpid())
		path, err := makeUnified(h.unified, defaultParent, name, needed)
		if err != nil {
			return false, err.Error()
		}
		_ = os.Remove(path)
		return true, ""
	}
	for _, c := range needed {
		mount, ok := h.legacy[c]
		if !ok {
			return false, fmt.Sprintf("this machine offers no %s control group", c)
		}
		if err := unix.Access(mount, unix.W_OK); err != nil {
			return false, fmt.Sprintf("control groups cannot be made in %s: %v", mount, err)
		}
	}
	return true, ""
}
