package enclosure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A container of the same pod may write to a volume while this container's tree is built. So
// the shim does not use paths in a volume. It opens a file or folder once, without following a
// link, and then uses the file descriptor.

// errReplaced means that a program has replaced a file or folder of a path by a link.
var errReplaced = errors.New("a symbolic link is in the place of a file or folder that was there before")

// openBelow opens a path below a folder, for use by its file descriptor. It follows links in the path
// of the folder, but none in the path below it.
func openBelow(folder, below string) (*os.File, error) {
	file, err := openAt(unix.AT_FDCWD, folder, 0)
	if err != nil {
		return nil, err
	}
	for _, name := range split(below) {
		next, err := openEntry(file, name)
		_ = file.Close() // it was never read or written
		if err != nil {
			return nil, fmt.Errorf("opening %s in %s: %w", below, folder, err)
		}
		file = next
	}
	return file, nil
}

// openEntry opens an entry of a folder. It returns errReplaced for a link.
func openEntry(folder *os.File, name string) (*os.File, error) {
	if name == ".." {
		return nil, errors.New(`".." leads out of the folder`)
	}
	file, err := openAt(int(folder.Fd()), name, unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		err = errReplaced
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

func openAt(folder int, name string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Openat(folder, name, unix.O_PATH|unix.O_CLOEXEC|flags, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		return os.NewFile(uintptr(fd), name), nil
	}
}

// readLink returns the target of an open link.
func readLink(link *os.File) (string, error) {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(link.Fd()), "", target)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: link.Name(), Err: err}
	}
	return string(target[:n]), nil
}

// create makes an entry of a folder, and opens it. It opens an existing entry without a change.
func create(folder *os.File, name string, isDir bool) (*os.File, error) {
	var err error
	if isDir {
		err = unix.Mkdirat(int(folder.Fd()), name, 0o755)
	} else {
		var fd int
		if fd, err = unix.Openat(int(folder.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644); err == nil {
			err = unix.Close(fd)
		}
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, &fs.PathError{Op: "create", Path: name, Err: err}
	}
	return openEntry(folder, name)
}

// open opens a path of the new root. The caller has resolved all links of the path.
func (t *tree) open(path string) (*os.File, error) {
	return openBelow(t.root, strings.TrimPrefix(path, t.root))
}

// byNumber is a path by file descriptor: it always leads to the open file.
func byNumber(file *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(file.Fd())) }

// attach mounts a file or folder, with all mounts below it, at an open target. The attributes, such as
// MOUNT_ATTR_RDONLY, hold from the mount's first moment on, and so do the numbers of a user namespace.
func attach(source, target *os.File, attributes uint64, namespace *os.File) error {
	mount, err := unix.OpenTree(int(source.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if errors.Is(err, unix.ENOSYS) && namespace == nil { // before Linux 5.2: protect sets the attributes
		return bind(byNumber(source), byNumber(target))
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(mount) }()
	if namespace != nil {
		if err := setMapped(mount, namespace); err != nil {
			return err
		}
	}
	if attributes != 0 {
		err := unix.MountSetattr(mount, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attributes})
		if err != nil && !errors.Is(err, unix.ENOSYS) { // before Linux 5.12: protect does
			return err
		}
	}
	return unix.MoveMount(mount, "", int(target.Fd()), "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}
