package osfile

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// NoFollow makes [os.OpenFile] refuse a symbolic link. Windows has no such flag:
// the caller compares what it opened with what it looked at.
const NoFollow = 0

// Lock waits for the lock of an open file and holds it alone. Closing the file
// gives the lock back, and so does the end of the process.
func Lock(file *os.File) error { return lock(file, windows.LOCKFILE_EXCLUSIVE_LOCK) }

// LockShared waits until no process holds the lock of an open file alone, and
// shares it with others.
func LockShared(file *os.File) error { return lock(file, 0) }

// TryLock is [Lock] without the wait. It returns [ErrLocked] where another
// process holds the lock.
func TryLock(file *os.File) error {
	err := lock(file, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return err
}

func lock(file *os.File, how uint32) error {
	return windows.LockFileEx(windows.Handle(file.Fd()), how, 0, math.MaxUint32, math.MaxUint32, new(windows.Overlapped))
}
