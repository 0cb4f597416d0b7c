package gpu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// DefaultLockDir is where the locks of a machine are: a folder that every user
// may write to, outside all data folders.
const DefaultLockDir = "/tmp/.muster-gpu"

// ErrLocked says that somebody else holds a device's lock.
var ErrLocked = errors.New("the lock is held by another process")

// LockPath is the file whose exclusive flock means holding the device, in the
// default folder. PrepareLocks must have made it.
func LockPath(uuid string) string { return LockPathIn(DefaultLockDir, uuid) }

// LockPathIn is LockPath for another folder of locks; empty is the default.
func LockPathIn(dir, uuid string) string {
	if dir == "" {
		dir = DefaultLockDir
	}
	// A UUID comes from a driver or an annotation and must stay a file name.
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == 0 {
			return '_'
		}
		return r
	}, uuid)
	return filepath.Join(dir, name+".lock")
}

// PrepareLocks makes the folder of locks, if need be, and one file for each
// device in it, such that any user can lock them. It locks none.
func PrepareLocks(dir string, devices []Device) error {
	if dir == "" {
		dir = DefaultLockDir
	}
	if err := prepareDir(dir); err != nil {
		return fmt.Errorf("preparing the GPU locks: %w", err)
	}
	for _, d := range devices {
		if err := prepareFile(LockPathIn(dir, d.UUID)); err != nil {
			return fmt.Errorf("preparing the lock of GPU %s: %w", d.UUID, err)
		}
	}
	return nil
}

func prepareDir(dir string) error {
	err := os.Mkdir(dir, 0o777)
	if errors.Is(err, fs.ErrExist) {
		info, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return fmt.Errorf("%s is not a folder; remove it", dir)
		}
		if info.Mode().Perm() != 0o777 && os.Geteuid() == 0 {
			return os.Chmod(dir, 0o777|os.ModeSticky)
		}
		return nil
	}
	if err != nil {
		return err
	}
	// The sticky bit keeps users from removing each other's files; the umask
	// does not apply to a change of mode.
	return os.Chmod(dir, 0o777|os.ModeSticky)
}

func prepareFile(path string) error {
	file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o644)
	if errors.Is(err, fs.ErrExist) {
		file, err = os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	}
	if err != nil {
		return err
	}
	return file.Close()
}

// Lock takes a device's lock at path, or fails with ErrLocked at once. It is
// held until the file, and every copy that child processes got of it, is
// closed.
func Lock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a GPU's lock: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
	}
	return file, nil
}

// LockHolder says which process holds the lock at path: its PID, or 0 if
// nobody does, or nobody that can be seen from here (one that took it in
// another container). It takes no lock itself, and so disturbs nobody who
// tries to.
func LockHolder(path string) (int, error) {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return 0, fmt.Errorf("looking at a GPU's lock: %w", err)
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0, fmt.Errorf("looking at a GPU's lock: %w", err)
	}
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev), stat.Ino)
	for line := range strings.Lines(string(locks)) {
		// "1: FLOCK  ADVISORY  WRITE 321 08:01:99 0 EOF"; those that wait have
		// an arrow behind the number.
		fields := strings.Fields(line)
		if len(fields) < 6 || fields[1] != "FLOCK" || fields[5] != file {
			continue
		}
		pid, err := strconv.Atoi(fields[4])
		if err != nil {
			return 0, fmt.Errorf("reading /proc/locks: %w", err)
		}
		return pid, nil
	}
	return 0, nil
}
