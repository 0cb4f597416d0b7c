package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/osfile"
)

// LockedError says that another process holds a data folder.
type LockedError struct {
	// DataDir is the folder.
	DataDir string
	// PID is the holder; 0 if it is not known.
	PID int
}

func (e *LockedError) Error() string {
	holder := "another process"
	if e.PID > 0 {
		holder = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("the data folder %s is in use by %s: stop it with `muster down`, or give another folder", e.DataDir, holder)
}

// lockPatience is how long Lock waits for a holder that is on its way out: a
// process that was killed keeps its locks until the kernel has taken it apart.
const (
	lockPatience = 5 * time.Second
	lockInterval = 5 * time.Millisecond
)

// Lock takes the data folder for this process, creating it if need be, until
// release is called or the process ends. If another process has it, the error
// is a [LockedError]; for one that was killed and is not quite gone it waits.
func Lock(ctx context.Context, dataDir string) (release func(), err error) {
	if err := osfile.MakeFolder(dataDir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data folder: %w", explain(err, dataDir))
	}
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	tick := time.NewTicker(lockInterval)
	defer tick.Stop()
	path := filepath.Join(dataDir, "lock")
	for {
		f, err := flock(path)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking the data folder: %w", explain(err, dataDir))
		}
		pid := lockHolder(path)
		if !ending(pid) {
			return nil, &LockedError{DataDir: dataDir, PID: pid}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, &LockedError{DataDir: dataDir, PID: pid}
		}
	}
}

// ending reports whether a process is gone, was killed, or is being taken
// apart: the lock that it has will be free in a moment. The holder that has not
// written its id yet is not known, and looked at again.
func ending(pid int) bool {
	if pid <= 0 {
		return true
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return true
	}
	memory := false
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "State":
			if value != "" && strings.ContainsRune("ZX", rune(value[0])) {
				return true
			}
		case "VmSize":
			memory = true
		case "SigPnd", "ShdPnd":
			if pending, err := strconv.ParseUint(value, 16, 64); err == nil && pending&(1<<(uint(unix.SIGKILL)-1)) != 0 {
				return true
			}
		}
	}
	return !memory // It is given back before the files are closed.
}

// flock opens and locks a file and writes this process's id into it. The lock
// ends with the last descriptor of the opened file.
func flock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func lockHolder(path string) int {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0
	}
	return pid
}

const (
	// A child whose supervisor was killed ends at once, unless its disk is very
	// slow.
	orphanPatience = 15 * time.Second
	orphanInterval = 10 * time.Millisecond
)

// awaitOrphan waits until the child of a supervisor that was killed has ended.
// The caller holds the data folder's lock, so that no other can follow.
func awaitOrphan(ctx context.Context, dataDir string) error {
	f, err := lockChild(ctx, dataDir)
	if err != nil {
		return err
	}
	return f.Close()
}

// lockChild takes the lock that the child process will inherit and hold as
// long as it lives. If the child of a supervisor that was killed is still
// stopping, it waits for it: two etcds must never share a folder.
func lockChild(ctx context.Context, dataDir string) (*os.File, error) {
	path := filepath.Join(dataDir, "control-plane.lock")
	deadline := time.NewTimer(orphanPatience)
	defer deadline.Stop()
	tick := time.NewTicker(orphanInterval)
	defer tick.Stop()
	for {
		f, err := flock(path)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return f, explain(err, dataDir)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for an earlier control plane to stop: %w", ctx.Err())
		case <-deadline.C:
			return nil, fmt.Errorf("a control plane that process %d started on %s is still running after %s: find it with `fuser %s` and end it", lockHolder(path), dataDir, orphanPatience, path)
		}
	}
}

// explain adds what to do to errors of the file system.
func explain(err error, dir string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("%w: the disk of %s is full: make room there, or give another data folder", err, dir)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w: the disk of %s is read-only: give a data folder that can be written", err, dir)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%w: this user may not write to %s: give another data folder, or correct its owner", err, dir)
	}
	return err
}
