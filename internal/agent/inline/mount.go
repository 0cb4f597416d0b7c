package inline

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Show has a folder be seen at the target of a volume. What is shown already stays as
// it is. A link in the place of the folder is not followed: containers may have put it there.
func Show(folder, target string, readOnly bool) error {
	if Shown(target) {
		return nil
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("making the volume's folder: %w", err)
	}
	fd, err := unix.Open(folder, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening %s, which is to be mounted: %w", folder, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", fd), target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", folder, target, err)
	}
	if !readOnly {
		return nil
	}
	if err := unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|restrictions(target), ""); err != nil {
		return errors.Join(fmt.Errorf("making %s read-only: %w", target, err), unix.Unmount(target, unix.MNT_DETACH))
	}
	return nil
}

// hide takes what is shown away, and the target with it; neither has to be there.
func hide(target string) error {
	if Shown(target) {
		if err := unix.Unmount(target, 0); err != nil {
			return fmt.Errorf("unmounting %s: %w", target, err)
		}
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the volume's folder: %w", err)
	}
	return nil
}

// restrictions are those of the disk that a folder is on, which a mount of it
// keeps: a remount takes away what it does not name.
func restrictions(path string) uintptr {
	var disk unix.Statfs_t
	if unix.Statfs(path, &disk) != nil {
		return 0
	}
	return uintptr(disk.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
}

// Shown reports that something is mounted on a folder, also of the same disk. Who serves
// a mount is not asked.
func Shown(path string) bool {
	var here unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, &here); err != nil {
		return errors.Is(err, unix.ENOTCONN) // who served it is gone
	}
	return here.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 && here.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
