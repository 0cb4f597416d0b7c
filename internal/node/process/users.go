package process

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

const (
	// usersFolder holds one control group for each user of the machine, with those of the user's
	// containers in it: muster/users/1000/<container>.
	usersFolder = "users"
	// pidsController counts processes and threads.
	pidsController = "pids"
)

// parentOf is the control group that holds those of containers.
func parentOf(s Spec) string {
	if s.Limits != nil && s.Limits.Parent != "" {
		return filepath.Clean("/" + s.Limits.Parent)[1:]
	}
	return defaultParent
}

// processesOf is the highest number of processes and threads of the container's user. 0: no limit.
func processesOf(s Spec) int64 {
	if s.Owner == nil || s.UID == nil || *s.UID == 0 {
		return 0
	}
	return s.Owner.Processes
}

// boundsUsers reports whether a control group can keep the limit of a user's processes.
func (h hierarchies) boundsUsers() bool {
	if h.offers([]string{pidsController}) {
		return unix.Access(h.unified, unix.W_OK) == nil
	}
	mount, there := h.legacy[pidsController]
	return there && unix.Access(mount, unix.W_OK) == nil
}

// processLimit is the limit that the shim sets by RLIMIT_NPROC, since no control group keeps it.
func (h hierarchies) processLimit(s Spec) int64 {
	if h.boundsUsers() {
		return 0
	}
	return processesOf(s)
}

// withPIDs adds the controller of processes to settings that may have it.
func withPIDs(all []setting) []setting {
	if slices.ContainsFunc(all, func(s setting) bool { return s.controller == pidsController }) {
		return all
	}
	return append(all, setting{controller: pidsController})
}

// userParent is the control group for all containers of a user; that of all containers where the
// user's processes have no limit.
func userParent(parent string, s Spec) string {
	if processesOf(s) == 0 {
		return parent
	}
	return filepath.Join(parent, usersFolder, strconv.FormatUint(uint64(*s.UID), 10))
}

// boundUser sets the limit of a user's processes.
func boundUser(group string, s Spec) error {
	if processesOf(s) == 0 {
		return nil
	}
	return writeGroup(group, [][2]string{{"pids.max", strconv.FormatInt(processesOf(s), 10)}})
}

// maxWeight is the highest cpu.weight of a control group.
const maxWeight = 10_000

// weigh gives a user's control group of version 2 the weight of its containers: CPU time is shared by
// what they request, as if they had no group in common.
func weigh(group string) error {
	files, err := filepath.Glob(filepath.Join(escapeGlob(group), "*", "cpu.weight"))
	if err != nil || len(files) == 0 {
		return nil //nolint:nilerr // the path was escaped
	}
	sum := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		weight, parseErr := strconv.Atoi(strings.TrimSpace(string(data)))
		if err == nil && parseErr == nil { // else the container has just ended
			sum += weight
		}
	}
	return writeGroup(group, [][2]string{{"(cpu.weight)", strconv.Itoa(min(max(sum, 1), maxWeight))}})
}

// leaveUsers removes the groups of users whose last containers these groups were, and weighs the
// others anew. A group of a user that cannot be removed has containers.
func leaveUsers(groups []contract.Group) {
	for _, g := range groups {
		user := filepath.Dir(g.Path)
		if filepath.Base(filepath.Dir(user)) != usersFolder {
			continue
		}
		if err := os.Remove(user); err != nil && !errors.Is(err, fs.ErrNotExist) {
			_ = weigh(user)
		}
	}
}

// UserProcesses is the default of the highest number of processes and threads of one user: a third
// of those that the machine allows, as systemd gives to a session.
func UserProcesses() int64 {
	most := int64(math.MaxInt64)
	for _, file := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		data, err := os.ReadFile(file)
		if n, parseErr := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil && parseErr == nil {
			most = min(most, n)
		}
	}
	if most == math.MaxInt64 {
		return 0
	}
	return max(1, most/3)
}

// groupsOf makes the control groups of a container. Another container of the user that ends at the
// same time takes their group away, so it is tried again.
func (r *Runtime) groupsOf(s Spec) (groups []contract.Group, err error) {
	for range 10 {
		if groups, err = makeGroups(r.hierarchies, s); !errors.Is(err, fs.ErrNotExist) || processesOf(s) == 0 {
			break
		}
	}
	return groups, err
}

// errNoOwner refuses a container that does not say whom it runs as.
var errNoOwner = errors.New("on a machine that several users share, a container needs a user and a group, and this one names none")

// validateOwner refuses a container that would run as the user who runs Muster because nothing
// names its user.
func (r *Runtime) validateOwner(s Spec) error {
	switch {
	case !r.shared:
		return nil
	case s.Owner == nil || s.UID == nil || s.GID == nil:
		return errNoOwner
	case s.Account != "":
		return fmt.Errorf("the user %q of an image is not the owner of the container: users run no images on a machine that they share", s.Account)
	}
	return nil
}
