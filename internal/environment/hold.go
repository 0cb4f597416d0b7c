//go:build linux

package environment

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// errBusy means that another process, or another part of this one, holds the
// environment in a way that keeps us out.
var errBusy = errors.New("somebody else is at work on this environment")

// lockHome takes the lock of an environment's folder, which must exist, in the
// given way, or returns [errBusy]. Closing the file lets go.
func lockHome(home string, how int) (*os.File, error) {
	path := filepath.Join(home, buildLock)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errBusy // it is being removed just now
	}
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EINTR):
		err = errBusy
	case err == nil && !samePlace(f, path):
		err = errBusy // it was removed before we had it
	case err == nil && how == unix.LOCK_EX && runs(home):
		err = errBusy
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// runs reports whether programs of a build still run in a home after their Muster was
// killed. The caller must hold the lock of the home.
func runs(home string) bool {
	f, err := os.OpenFile(filepath.Join(home, runLock), os.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// samePlace reports whether the open file is the one at the path.
func samePlace(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(mine, there)
}

// reserve finds an environment ready and makes sure that it stays for a while.
// One that is being built or removed just now is not ready.
func reserve(home string, now time.Time) (path string, ok bool) {
	if _, ok := readyAt(home); !ok {
		return "", false
	}
	held, err := lockHome(home, unix.LOCK_SH)
	if err != nil {
		return "", false
	}
	defer func() { _ = held.Close() }()
	if path, ok = readyAt(home); ok {
		note(home, reserveFile, now)
	}
	return path, ok
}

// note sets the time of a file that is there for its time alone. One that
// cannot be written only lets the environment go earlier.
func note(home, name string, at time.Time) {
	path := filepath.Join(home, name)
	if err := os.Chtimes(path, at, at); !errors.Is(err, os.ErrNotExist) {
		return
	}
	if os.WriteFile(path, nil, 0o600) == nil {
		_ = os.Chtimes(path, at, at)
	}
}
