package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/osfile"
)

// Temporary are the temporary folders that belong to this container alone. A worker empties them
// between datums, so they must never be the machine's.
func Temporary(post string) []string {
	if list, set := os.LookupEnv(contract.TemporaryVariable); set {
		return filepath.SplitList(list)
	}
	// A container of a cluster has a root file system of its own. Process 1 with a post is the first
	// process of such a container, and not of a machine.
	if post == "" || os.Getpid() != 1 {
		return nil
	}
	mounts, err := osfile.MountPoints()
	if err != nil {
		return nil
	}
	mounted := func(dir string) bool {
		return slices.ContainsFunc(mounts, func(m osfile.MountPoint) bool { return m.Path == dir })
	}
	own := []string{}
	for _, dir := range []string{"/tmp", "/var/tmp"} {
		if !mounted(dir) { // else it is a volume
			own = append(own, dir)
		}
	}
	if mounted("/dev/shm") {
		own = append(own, "/dev/shm")
	}
	return own
}

// fresh hides the files that a program leaves in temporary folders from the next datum's program.
type fresh struct {
	// folders are this worker's folders, and keep the names in each before the first program.
	folders []string
	keep    map[string][]string
	// mounts are the mounts at that time, by the kernel's number.
	mounts map[string]osfile.MountPoint
	// used reports that a program has run since they were emptied, and strays is the error if not all
	// of its processes are gone.
	used   bool
	strays error
}

// newFresh notes the files and mounts before the first program runs.
func newFresh(folders []string) (*fresh, error) {
	f := &fresh{keep: map[string][]string{}, mounts: map[string]osfile.MountPoint{}}
	mounts, err := osfile.MountPoints()
	if err != nil {
		return nil, fmt.Errorf("reading the mounts: %w", err)
	}
	for _, m := range mounts {
		f.mounts[m.ID] = m
	}
	for _, dir := range folders {
		dir, err := filepath.EvalSymlinks(dir)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("looking at a temporary folder: %w", err)
		}
		if slices.Contains(f.folders, dir) {
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("looking at a temporary folder: %w", err)
		}
		for _, e := range entries {
			f.keep[dir] = append(f.keep[dir], e.Name())
		}
		f.folders = append(f.folders, dir)
	}
	return f, nil
}

// empty empties the temporary folders if a program has run since the last time. The worker ends if this fails: the container of the next one begins with empty folders.
func (f *fresh) empty(ctx context.Context) error {
	if !f.used || len(f.folders) == 0 {
		return nil
	}
	if f.strays != nil {
		return f.strays
	}
	if err := f.unmount(); err != nil {
		return err
	}
	for _, dir := range f.folders {
		err := osfile.Clear(ctx, dir, f.keep[dir]...)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("emptying %s for the next datum: %w; this worker ends, and another one goes on", dir, err)
		}
	}
	f.used = false
	return nil
}

// unmount removes a program's mounts in a temporary folder.
func (f *fresh) unmount() error {
	mounts, err := osfile.MountPoints()
	if err != nil {
		return fmt.Errorf("reading the mounts: %w", err)
	}
	for _, m := range slices.Backward(mounts) {
		if _, before := f.mounts[m.ID]; before || !f.owns(m.Path) {
			continue
		}
		if err := unix.Unmount(m.Path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmounting %s, which a program mounted: %w; this worker ends, and another one goes on", m.Path, err)
		}
	}
	return nil
}

// owns reports whether a path is in a temporary folder, and in no mount that was there before.
func (f *fresh) owns(path string) bool {
	inside := func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
	if !slices.ContainsFunc(f.folders, inside) {
		return false
	}
	for _, m := range f.mounts {
		if inside(m.Path) && m.Path != "/" && !slices.ContainsFunc(f.folders, func(dir string) bool {
			return dir == m.Path || strings.HasPrefix(dir, m.Path+"/")
		}) {
			return false
		}
	}
	return true
}

const (
	// strayTimeout is the time in which processes that are killed have to be gone.
	strayTimeout = 5 * time.Second
	strayPause   = 2 * time.Millisecond
)

// errStray is the error for a process that stays although it was killed.
var errStray = errors.New("a process that the program left behind does not end; this worker ends, and another one goes on")

// leaveNothing ends the processes that an ended program left behind, if the worker has temporary
// folders: they would write to those of the next datum. A worker that does not inherit them has
// killed the program's process group, and no more.
func (w *worker) leaveNothing(ctx context.Context) {
	w.fresh.used = true
	if len(w.fresh.folders) > 0 && w.heir {
		w.fresh.strays = w.endStrays(ctx)
	}
}

// endStrays kills all descendants of this process.
func (w *worker) endStrays(ctx context.Context) error {
	if w.alone() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), strayTimeout)
	defer cancel()
	tick := time.NewTicker(strayPause)
	defer tick.Stop()
	for {
		for _, pid := range descendants(os.Getpid()) {
			_ = unix.Kill(pid, unix.SIGKILL) // or it has just ended, and is not alone
		}
		if w.alone() {
			return nil
		}
		select {
		case <-ctx.Done():
			return errStray
		case <-tick.C:
		}
	}
}

// descendants are the processes that have a process as their parent, or a parent of that kind.
func descendants(of int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state parent ...": the name may have parentheses.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	var all []int
	for next := children[of]; len(next) > 0; {
		pid := next[0]
		all, next = append(all, pid), append(next[1:], children[pid]...)
	}
	return all
}
