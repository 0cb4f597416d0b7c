package inline

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/osfile"
)

// Show mounts a folder at the target of a volume. The folder is below top, at a path of names.
// A target that is mounted stays as it is. Show follows no links below top: containers, or the
// process that fetches, may have made them. A read-only mount also ignores devices and
// set-user-ID bits.
func Show(top, below, target string, readOnly bool) error {
	if Shown(target) {
		return nil
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("making the volume's folder: %w", err)
	}
	folder, err := openBelow(top, below)
	if err != nil {
		return fmt.Errorf("opening %s in %s, which is to be mounted: %w", below, top, err)
	}
	defer func() { _ = folder.Close() }()
	if readOnly {
		switch err := attach(folder, target); {
		case err == nil:
			return nil
		case !errors.Is(err, unix.ENOSYS):
			return fmt.Errorf("mounting %s in %s at %s read-only: %w", below, top, target, err)
		}
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", folder.Fd()), target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s in %s at %s: %w", below, top, target, err)
	}
	if !readOnly {
		return nil
	}
	// Before Linux 5.12.
	flags := unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | restrictions(target)
	if err := unix.Mount("", target, "", flags, ""); err != nil {
		return errors.Join(fmt.Errorf("making %s read-only: %w", target, err), unix.Unmount(target, unix.MNT_DETACH))
	}
	return nil
}

// attach mounts a folder at a target that sees it read-only from the first moment: an agent
// that is killed leaves no mount that pods could write to. The error is ENOSYS before Linux 5.12.
func attach(folder *os.File, target string) error {
	mount, err := unix.OpenTree(int(folder.Fd()), "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(mount) }()
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH, attr); err != nil {
		return err
	}
	return unix.MoveMount(mount, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// openBelow opens a folder below top, name by name. Each name has to be a folder.
func openBelow(top, below string) (*os.File, error) {
	at, err := os.OpenRoot(top)
	if err != nil {
		return nil, err
	}
	defer func() { _ = at.Close() }()
	for name := range strings.SplitSeq(below, "/") {
		next, err := osfile.OpenFolder(at, name)
		if err != nil {
			return nil, err
		}
		_ = at.Close() // it was only read
		at = next
	}
	return at.Open(".")
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
