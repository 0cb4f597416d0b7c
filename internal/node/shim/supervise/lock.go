package supervise

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

const (
	// lockFor is how long a lock that is held is tried again: its last holder
	// may be about to end.
	lockFor   = time.Second
	lockEvery = 10 * time.Millisecond
)

// lock takes all the locks, in their order, and writes into each who holds it.
func (s *supervisor) lock() *startError {
	until := time.Now().Add(lockFor)
	for _, path := range s.spec.Locks {
		file, err := openLock(path)
		if err != nil {
			return fault(contract.ReasonInternal, "opening the lock %s: %v", path, err)
		}
		for {
			err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
			if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(until) {
				break
			}
			time.Sleep(lockEvery)
		}
		if errors.Is(err, unix.EWOULDBLOCK) {
			return fault(contract.ReasonLockHeld, "the lock %s is held by %s", path, holder(path))
		}
		if err != nil {
			return fault(contract.ReasonInternal, "locking %s: %v", path, err)
		}
		_ = file.Truncate(0)
		_, _ = file.WriteAt(fmt.Appendf(nil, "container %s, process %d, user %d, since %s\n",
			s.spec.ID, s.order.HostPID, os.Getuid(), time.Now().UTC().Format(time.RFC3339)), 0)
		s.locks = append(s.locks, file)
	}
	return nil
}

// openLock opens a lock that all users of the machine share. The folder may be
// one where everybody writes, so a link is not followed.
func openLock(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		if fd, err = unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o666); err == nil {
			_ = unix.Fchmod(fd, 0o666) // whatever the umask
		}
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// holder quotes what the holder of a lock wrote into it.
func holder(path string) string {
	data, err := os.ReadFile(path)
	text := strings.TrimSpace(string(data))
	if err != nil || text == "" {
		return "another process"
	}
	return text
}

// release gives a lock back.
func release(file *os.File) {
	_ = file.Truncate(0)
	_ = file.Close()
}
