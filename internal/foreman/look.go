package foreman

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/osfile"
)

// look is what whoever uses a file or a folder notices of it, beside what is in it.
type look struct {
	mode     uint16 // its kind and its rights
	uid, gid uint32
	flags    uint64 // immutable, append only, the root of a mount and the like
	extra    string // the names and the values of its extended attributes
	size     uint64
	links    uint32
}

// lookAt looks at an open file, also if another file has its name by now.
func lookAt(file *os.File) (look, error) {
	var found unix.Statx_t
	mask := unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_UID | unix.STATX_GID | unix.STATX_SIZE | unix.STATX_NLINK
	if err := unix.Statx(int(file.Fd()), "", unix.AT_EMPTY_PATH, mask, &found); err != nil {
		return look{}, fmt.Errorf("looking at %s: %w", file.Name(), err)
	}
	extra, err := attributes(int(file.Fd()))
	if err != nil {
		return look{}, fmt.Errorf("looking at the attributes of %s: %w", file.Name(), err)
	}
	return look{
		mode: found.Mode, uid: found.Uid, gid: found.Gid, flags: found.Attributes & found.Attributes_mask,
		extra: extra, size: found.Size, links: found.Nlink,
	}, nil
}

// lookInto looks at a folder.
func lookInto(folder *os.Root) (look, error) {
	file, err := folder.Open(".")
	if err != nil {
		return look{}, err
	}
	found, err := lookAt(file)
	return found, errors.Join(err, file.Close())
}

// lookUpon looks at a regular file in a folder.
func lookUpon(in *os.Root, name string) (look, error) {
	file, err := osfile.OpenRegular(in, name)
	if err != nil {
		return look{}, err
	}
	found, err := lookAt(file)
	return found, errors.Join(err, file.Close())
}

// mostAttributes is how many bytes of names and of a value are read.
const mostAttributes = 4096

// attributes are the extended attributes of a file: access lists are among them.
func attributes(fd int) (string, error) {
	size, err := unix.Flistxattr(fd, nil)
	if err == nil && size == 0 || errors.Is(err, unix.ENOTSUP) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	names := make([]byte, mostAttributes)
	if size, err = unix.Flistxattr(fd, names); err != nil {
		return "", err
	}
	out, value, start := string(names[:size]), make([]byte, mostAttributes), 0
	for at, b := range names[:size] {
		if b != 0 {
			continue
		}
		n, err := unix.Fgetxattr(fd, string(names[start:at]), value)
		if err != nil {
			return "", err
		}
		out, start = out+string(value[:n])+"\x00", at+1
	}
	return out, nil
}

// same says that of two files, whatever is in them, each is as good as the other.
func (l *look) same(other *look) bool {
	return l.mode == other.mode && l.uid == other.uid && l.gid == other.gid && l.flags == other.flags && l.extra == other.extra
}

// is reports whether a folder looks so.
func (l *look) is(folder *os.Root) bool {
	now, err := lookInto(folder)
	return err == nil && now.same(l)
}
