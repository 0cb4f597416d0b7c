package mount

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// fuseDevice is where the kernel takes file systems from.
const fuseDevice = "/dev/fuse"

// Available says why nothing can be mounted on this machine by who asks, and what to
// do; nil if it can.
func Available() error {
	file, err := os.OpenFile(fuseDevice, os.O_RDWR, 0)
	if err == nil {
		err = file.Close()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO):
		return fmt.Errorf("nothing can be mounted here: there is no %s: load the kernel's module (modprobe fuse), or give the container this device", fuseDevice)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("nothing can be mounted here: user %d may not open %s: give it to the user (chmod 666 %s is the usual right), or be root", os.Geteuid(), fuseDevice, fuseDevice)
	case err != nil:
		return fmt.Errorf("nothing can be mounted here: %w", err)
	case os.Geteuid() != 0:
		if _, err := helper(); err != nil {
			return fmt.Errorf("nothing can be mounted here by user %d, who is not root: that takes fusermount3: install the package fuse3, or be root", os.Geteuid())
		}
	case !mayMount():
		return errors.New("nothing can be mounted here: this root lacks the right CAP_SYS_ADMIN: give it to the container, or run outside of it")
	}
	return nil
}

// helper is the program that mounts and unmounts for users.
func helper() (string, error) {
	if path, err := exec.LookPath("fusermount3"); err == nil {
		return path, nil
	}
	return exec.LookPath("fusermount")
}

// mayMount says that this process may mount at all.
func mayMount() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	return unix.Capget(&header, &sets[0]) != nil || sets[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// Unmount takes away what is mounted at a folder: with detach also where something of
// it is in use, by whom it is served on. The error wraps [unix.EINVAL] where nothing
// is mounted, and [unix.EBUSY] where it is in use.
func Unmount(point string, detach bool) error {
	flags := unix.UMOUNT_NOFOLLOW
	if detach {
		flags |= unix.MNT_DETACH
	}
	err := unix.Unmount(point, flags)
	if errors.Is(err, unix.EPERM) && os.Geteuid() != 0 {
		err = unmountForUser(point, detach)
	}
	if err != nil {
		return fmt.Errorf("unmounting %s: %w", point, err)
	}
	return nil
}

// unmountForUser has the helper unmount.
func unmountForUser(point string, detach bool) error {
	mounted, err := Mounted(point)
	if err != nil {
		return err
	}
	if !mounted {
		return unix.EINVAL
	}
	program, err := helper()
	if err != nil {
		return err
	}
	args := []string{"-u", point}
	if detach {
		args = []string{"-u", "-z", point}
	}
	said, err := exec.Command(program, args...).CombinedOutput() //nolint:noctx // It is one system call.
	if err != nil && !detach {
		return fmt.Errorf("%w: %s", unix.EBUSY, bytes.TrimSpace(said))
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(said))
	}
	return nil
}

// Dead says that a mount is at a folder whose server is gone: whoever looks into it is
// told that it is not connected.
func Dead(point string) bool {
	var st unix.Statfs_t
	return errors.Is(unix.Statfs(point, &st), unix.ENOTCONN)
}

// Mounted says that one of our mounts is at a folder, dead or alive, without asking
// who serves it.
func Mounted(point string) (bool, error) {
	points, err := Points(filepath.Dir(point))
	for _, p := range points {
		if p == point {
			return true, err
		}
	}
	return false, err
}

// Points are the folders below one at which our mounts are, dead or alive, those that
// were mounted last first.
func Points(below string) ([]string, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("reading the table of mounts: %w", err)
	}
	return points(table, below), nil
}

// points reads a table of mounts; proc(5) has its form.
func points(table []byte, below string) []string {
	var found []string
	for in := bufio.NewScanner(bytes.NewReader(table)); in.Scan(); {
		before, after, ok := strings.Cut(in.Text(), " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 5 || !strings.HasPrefix(after, "fuse."+kind+" ") {
			continue
		}
		if point := unescape(fields[4]); strings.HasPrefix(point, strings.TrimSuffix(below, "/")+"/") {
			found = append([]string{point}, found...)
		}
	}
	return found
}

// unescape reads a path of the table of mounts, in which spaces and the like are a
// backslash and three octal digits.
func unescape(path string) string {
	var text strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '\\' && i+3 < len(path) {
			if code, err := strconv.ParseUint(path[i+1:i+4], 8, 8); err == nil {
				text.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		text.WriteByte(path[i])
	}
	return text.String()
}
