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

	"github.com/muster-dev/muster/internal/osfile"
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
	made := os.Mkdir(dir, 0o777)
	if made != nil && !errors.Is(made, fs.ErrExist) {
		return made
	}
	if info, err := os.Lstat(dir); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s is not a folder; remove it", dir)
	}
	file, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	if made == nil || os.Geteuid() == 0 {
		err = share(file)
	}
	return errors.Join(err, file.Close())
}

// share lets every user write to the folder. The sticky bit keeps users from removing each other's
// files, and root becomes the owner, who could. The umask does not apply to a change of mode.
func share(dir *os.File) error {
	if err := own(dir); err != nil {
		return err
	}
	const mode = os.ModePerm | os.ModeSticky
	if info, err := dir.Stat(); err != nil || info.Mode()&mode == mode {
		return err
	}
	return dir.Chmod(mode)
}

// own has root be the owner of what another user made. Who is not root changes nothing.
func own(file *os.File) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil || stat.Uid == 0 || os.Geteuid() != 0 {
		return err
	}
	return file.Chown(0, 0)
}

func prepareFile(path string) error {
	file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o644)
	if errors.Is(err, fs.ErrExist) {
		file, err = openLock(path)
	}
	if err != nil {
		return err
	}
	// The owner of a lock's file could remove it while others hold the lock.
	return errors.Join(own(file), file.Close())
}

// openLock opens a file that any user may have made. A link is not followed, a pipe is not waited for,
// and a file with another name (hard link) may be one of another user.
func openLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && (!info.Mode().IsRegular() || osfile.HasOtherNames(info)) {
		err = fmt.Errorf("%s is %s, and has to be a file with this name alone: remove it", path, osfile.Kind(info.Mode()))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Lock takes a device's lock at path, or fails with ErrLocked at once. It is
// held until the file, and every copy that child processes got of it, is
// closed.
func Lock(path string) (*os.File, error) {
	file, err := openLock(path)
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
