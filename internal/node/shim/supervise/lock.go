package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/shim/contract"
	"github.com/muster-dev/muster/internal/osfile"
)

const (
	// lockFor is how long a lock that is held is tried again: its last holder
	// may be about to end.
	lockFor   = time.Second
	lockEvery = 10 * time.Millisecond
)

// lock takes all the locks, in their order.
func (s *supervisor) lock() *startError {
	until := time.Now().Add(lockFor)
	for _, path := range s.spec.Locks {
		if failed := s.lockAlone(path, until); failed != nil {
			return failed
		}
	}
	for _, path := range s.spec.SharedLocks {
		if failed := s.lockTogether(path, s.spec.LockGroup, until); failed != nil {
			return failed
		}
	}
	return nil
}

// lockAlone takes a lock for this container alone, and writes into it who
// holds it.
func (s *supervisor) lockAlone(path string, until time.Time) *startError {
	file, failed := s.flock(path, unix.LOCK_EX, until)
	if failed != nil {
		return failed
	}
	_ = file.Truncate(0)
	_, _ = file.WriteAt(fmt.Appendf(nil, "container %s, process %d, user %d, since %s\n",
		s.spec.ID, s.order.HostPID, os.Getuid(), time.Now().UTC().Format(time.RFC3339)), 0)
	s.locks = append(s.locks, file)
	return nil
}

// lockTogether takes a lock together with others of the same group.
//
//  1. The lock itself, shared: whoever wants it alone is kept off.
//  2. The group's own file, shared: it says that the group is here.
//  3. No other group is here. Two that arrive at once see each other, and both
//     try again.
//
// What it locked is given back where any of this fails.
func (s *supervisor) lockTogether(path, group string, until time.Time) *startError {
	for {
		main, failed := s.flock(path, unix.LOCK_SH, until)
		if failed != nil {
			return failed
		}
		own := path + groupMark + group
		mark, failed := s.flock(own, unix.LOCK_SH, until)
		if failed != nil {
			_ = main.Close()
			return failed
		}
		if !otherGroup(path, own) {
			_ = main.Truncate(0)
			_, _ = main.WriteAt([]byte("containers of one Muster that have parts of it\n"), 0)
			s.shared = append(s.shared, main, mark)
			return nil
		}
		_, _ = main.Close(), mark.Close()
		if time.Now().After(until) {
			return fault(contract.ReasonLockHeld, "the lock %s is shared by containers of another Muster", path)
		}
		time.Sleep(lockEvery)
	}
}

// groupMark stands between a lock's name and a group's.
const groupMark = ".shared-"

// otherGroup reports that another group shares the lock.
func otherGroup(path, own string) bool {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return true // better nobody than two
	}
	for _, entry := range entries {
		each := filepath.Join(filepath.Dir(path), entry.Name())
		if each == own || !strings.HasPrefix(each, path+groupMark) {
			continue
		}
		file, err := openLock(each)
		if err != nil {
			continue
		}
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		_ = file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return true
		}
	}
	return false
}

// flock opens a lock and takes it, trying again until the time is up.
func (s *supervisor) flock(path string, how int, until time.Time) (*os.File, *startError) {
	file, err := openLock(path)
	if err != nil {
		return nil, fault(contract.ReasonInternal, "opening the lock %s: %v", path, err)
	}
	for {
		err = unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(until) {
			break
		}
		time.Sleep(lockEvery)
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		held := holder(file)
		_ = file.Close()
		return nil, fault(contract.ReasonLockHeld, "the lock %s is held by %s", path, held)
	case err != nil:
		_ = file.Close()
		return nil, fault(contract.ReasonInternal, "locking %s: %v", path, err)
	}
	return file, nil
}

// openLock opens a lock that all users of the machine share. The folder may be
// one where everybody writes, so a link is not followed, a pipe is not waited for, and a file with
// another name (hard link), which may be one of another user, is not written to.
func openLock(path string) (*os.File, error) {
	const how = unix.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Open(path, how, 0)
	if errors.Is(err, unix.ENOENT) {
		if fd, err = unix.Open(path, how|unix.O_CREAT, 0o666); err == nil {
			_ = unix.Fchmod(fd, 0o666) // whatever the umask
		}
	}
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	info, err := file.Stat()
	if err == nil && (!info.Mode().IsRegular() || osfile.HasOtherNames(info)) {
		err = fmt.Errorf("it is %s, and has to be a file with this name alone: remove it", osfile.Kind(info.Mode()))
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// mostHolder is how much of what a holder wrote is told, in bytes: any user may write to a lock.
const mostHolder = 4 << 10

// holder quotes what the holder of a lock wrote into it.
func holder(lock *os.File) string {
	data := make([]byte, mostHolder)
	n, err := lock.ReadAt(data, 0)
	text := strings.TrimSpace(strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(string(data[:n]), "?")))
	if err != nil && !errors.Is(err, io.EOF) || text == "" {
		return "another process"
	}
	return text
}

// release gives a lock back.
func release(file *os.File) {
	_ = file.Truncate(0)
	_ = file.Close()
}
