//go:build unix

package osfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// NoFollow makes [os.OpenFile] refuse a symbolic link, and open a pipe without
// waiting for its writer.
const NoFollow = unix.O_NOFOLLOW | unix.O_NONBLOCK

// Lock waits for the lock of an open file and holds it alone. Closing the file
// gives the lock back, and so does the end of the process.
func Lock(file *os.File) error { return flock(file, unix.LOCK_EX) }

// LockShared waits until no process holds the lock of an open file alone, and
// shares it with others.
func LockShared(file *os.File) error { return flock(file, unix.LOCK_SH) }

// TryLock is [Lock] without the wait. It returns [ErrLocked] where another
// process holds the lock.
func TryLock(file *os.File) error {
	err := flock(file, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

func flock(file *os.File, how int) error {
	for {
		err := unix.Flock(int(file.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
