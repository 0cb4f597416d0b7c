package guard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// OwnGroup is the control group of Muster's own processes where they were started in a guarded
// group, such as a login session. It lies beside the groups of containers.
const OwnGroup = "muster/own"

// DefaultGroups are those of login sessions.
var DefaultGroups = []string{"user.slice"}

// CheckGroups returns an error for names that cannot be guarded.
func CheckGroups(groups []string) error {
	for _, g := range groups {
		if g == "" || g == "." || !fs.ValidPath(g) {
			return fmt.Errorf("guarding the control group %q: give a path below the root of the control groups, such as user.slice or system.slice/sshd.service", g)
		}
		if g == path.Dir(OwnGroup) || strings.HasPrefix(g, path.Dir(OwnGroup)+"/") {
			return fmt.Errorf("guarding the control group %q: it is Muster's own; name groups of other programs, such as user.slice", g)
		}
	}
	return nil
}

// unifiedMount returns the mount point of the control groups of version 2.
func unifiedMount() (string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("looking for the control groups of version 2: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		before, after, ok := strings.Cut(line, " - ")
		if fields := strings.Fields(before); ok && len(fields) >= 5 && strings.HasPrefix(after, "cgroup2 ") {
			return fields[4], nil
		}
	}
	return "", errors.New("this machine has no control groups of version 2 (a mount of the type cgroup2)")
}

// openGroup opens a group's folder, and returns its number, which a group that is made again does
// not have. A group that is not there is fs.ErrNotExist.
func openGroup(mount, group string) (*os.File, uint64, error) {
	root, err := os.OpenRoot(mount)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = root.Close() }()
	folder, err := root.Open(group)
	if err != nil {
		return nil, 0, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(folder.Fd()), &stat); err != nil {
		return nil, 0, errors.Join(fmt.Errorf("looking at the control group %s: %w", group, err), folder.Close())
	}
	return folder, stat.Ino, nil
}

// groupOf returns the group of a process in version 2, relative to the root; "" is the root.
func groupOf(pid int) (string, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if group, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::/"); ok {
			return group, nil
		}
	}
	return "", nil
}

// keepOut moves processes that are in a guarded group to Muster's own.
func keepOut(mount string, guarded []string, pids []int) error {
	for _, pid := range pids {
		group, err := groupOf(pid)
		if err != nil || !within(group, guarded) {
			continue // it has ended, or lies elsewhere
		}
		target := filepath.Join(mount, OwnGroup)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return fmt.Errorf("making Muster's own control group: %w", err)
		}
		err = os.WriteFile(filepath.Join(target, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("moving process %d out of the guarded control group %s: %w", pid, group, err)
		}
	}
	return nil
}

// within reports whether a group is one of others, or lies below one.
func within(group string, others []string) bool {
	return slices.ContainsFunc(others, func(o string) bool { return group == o || strings.HasPrefix(group, o+"/") })
}
