package userfiles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/osfile"
)

// The methods below run in a helper, as the user.

// openBase opens the base of a place. Links of /proc would lead to the helper's own files.
func (p Place) openBase(flags int, mode uint32) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_NO_MAGICLINKS}
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(mode)
	}
	if p.NoLinks {
		how.Resolve |= unix.RESOLVE_NO_SYMLINKS
	}
	return openAt(unix.AT_FDCWD, p.Base, how)
}

// openFD opens a place.
func (p Place) openFD(flags int, mode uint32) (int, error) {
	if p.Below == "" || p.Below == "." {
		return p.openBase(flags, mode)
	}
	base, err := p.openBase(unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(base) }()
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	if p.OneMount {
		how.Resolve |= unix.RESOLVE_NO_XDEV
	}
	if flags&unix.O_CREAT != 0 {
		how.Mode = uint64(mode)
	}
	return openAt(base, p.Below, how)
}

func openAt(folder int, name string, how unix.OpenHow) (int, error) {
	for {
		fd, err := unix.Openat2(folder, name, &how)
		// EAGAIN: somebody has moved a folder of the path meanwhile.
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if errors.Is(err, unix.ENOSYS) {
			return -1, errors.New("the kernel has no openat2: files of users need Linux 5.6")
		}
		if err != nil {
			return -1, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		return fd, nil
	}
}

// open opens a place and describes what it has opened. A pipe is not waited for.
func (p Place) open(flags int, mode uint32) (*os.File, Info, error) {
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_NONBLOCK | unix.O_NOCTTY
	}
	fd, err := p.openFD(flags, mode)
	if err != nil {
		return nil, Info{}, err
	}
	file := os.NewFile(uintptr(fd), p.String())
	info, err := describe(file)
	if err == nil && flags&unix.O_PATH != 0 {
		err = accessible(fd, p)
	}
	if err != nil {
		return nil, Info{}, errors.Join(err, file.Close())
	}
	return file, info, nil
}

// accessible refuses what the user can neither read, write nor enter: O_PATH alone asks for rights to the
// folders above it.
func accessible(fd int, p Place) (err error) {
	for _, right := range []uint32{unix.R_OK, unix.W_OK, unix.X_OK} {
		if err = unix.Access(byNumber(fd), right); err == nil {
			return nil
		}
	}
	return &fs.PathError{Op: "open", Path: p.String(), Err: err}
}

func describe(file *os.File) (Info, error) {
	stat, err := file.Stat()
	if err != nil {
		return Info{}, err
	}
	var s unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &s); err != nil {
		return Info{}, err
	}
	return Info{Mode: stat.Mode(), Size: stat.Size(), UID: s.Uid, Dev: s.Dev}, nil
}

func (p Place) stat() (Info, error) {
	fd, err := p.openFD(unix.O_PATH, 0)
	if err != nil {
		return Info{}, err
	}
	file := os.NewFile(uintptr(fd), p.String())
	info, err := describe(file)
	return info, errors.Join(err, file.Close())
}

// read returns the end of a regular file.
func (p Place) read(most int) (data []byte, info Info, err error) {
	file, info, err := p.open(unix.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, Info{}, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if !info.Mode.IsRegular() {
		return nil, Info{}, &osfile.KindError{Name: p.String(), Is: osfile.Kind(info.Mode), Want: "a file"}
	}
	data = make([]byte, max(0, min(info.Size, int64(most), mostRead)))
	n, err := file.ReadAt(data, info.Size-int64(len(data)))
	return data[:n], info, ignoreEnd(err)
}

// parent opens the folder that the last name of a place is in, and makes what is missing of Below.
func (p Place) parent() (*os.Root, string, error) {
	if p.Below == "" || p.Below == "." {
		return nil, "", fmt.Errorf("%s is the base of a place; name something below it", p.Base)
	}
	above := p
	above.Below = path.Dir(p.Below)
	if err := above.makeAll(0o700); err != nil {
		return nil, "", err
	}
	in, err := above.root()
	return in, path.Base(p.Below), err
}

// root opens a folder.
func (p Place) root() (*os.Root, error) {
	fd, err := p.openFD(unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	return os.OpenRoot(byNumber(fd) + "/.")
}

func byNumber(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// makeAll makes a folder, and those above it. The mode counts for the last one.
func (p Place) makeAll(mode uint32) error {
	if p.Below == "" || p.Below == "." {
		if p.NoLinks {
			_, err := p.stat()
			return err
		}
		return makeBase(p.Base, fs.FileMode(mode)&fs.ModePerm)
	}
	at := p
	at.Below = ""
	names := strings.Split(path.Clean(p.Below), "/")
	for i, name := range names {
		fd, err := at.openFD(unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		own := uint32(0o700)
		if i == len(names)-1 {
			own = mode
		}
		err = unix.Mkdirat(fd, name, own)
		_ = unix.Close(fd)
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return &fs.PathError{Op: "mkdir", Path: at.Join(name).String(), Err: err}
		}
		at = at.Join(name)
	}
	info, err := at.stat()
	if err == nil && !info.Mode.IsDir() {
		err = &fs.PathError{Op: "mkdir", Path: at.String(), Err: unix.ENOTDIR}
	}
	return err
}

// makeBase makes a folder, and those above it, through links. Of a folder that the user may not look at,
// the error is that, and not that it is there.
func makeBase(base string, mode fs.FileMode) error {
	err := os.MkdirAll(base, mode)
	if there, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(err, fs.ErrExist) {
		if _, refused := os.Stat(there.Path); refused != nil {
			return refused
		}
	}
	return err
}

// list returns some entries of a folder, after the first ones, in the order of the file system.
func (p Place) list(skip int) (names [][]byte, types []fs.FileMode, more bool, err error) {
	fd, err := p.openFD(unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, nil, false, err
	}
	folder := os.NewFile(uintptr(fd), p.String())
	defer func() { err = errors.Join(err, folder.Close()) }()
	for {
		list, err := folder.ReadDir(mostNames)
		for _, e := range list {
			if skip > 0 {
				skip--
				continue
			}
			if len(names) == mostNames {
				return names, types, true, nil
			}
			names, types = append(names, []byte(e.Name())), append(types, e.Type())
		}
		if len(list) == 0 {
			return names, types, false, ignoreEnd(err)
		}
	}
}

// remove removes a file, or a folder with everything in it.
func (p Place) remove() error {
	if p.Below == "" || p.Below == "." {
		return fmt.Errorf("%s is the base of a place; name something below it", p.Base)
	}
	above := p
	above.Below = path.Dir(p.Below)
	fd, err := above.openFD(unix.O_PATH|unix.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return osfile.RemoveTree(context.Background(), byNumber(fd)+"/"+path.Base(p.Below))
}

// link makes a symbolic link, and the folders above it. A link that leads to the same place is left.
func (p Place) link(target string) (err error) {
	in, name, err := p.parent()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	err = in.Symlink(target, name)
	if errors.Is(err, fs.ErrExist) {
		if existing, failed := in.Readlink(name); failed == nil && existing == target {
			return nil
		}
	}
	return err
}

// sub finds the path below a folder that a relative path leads to, with its links resolved, and makes
// it as a folder if it is not there. A link that leads out of the folder is an error.
func (p Place) sub(keep bool) (Place, error) {
	asked := p.Below
	root, err := os.OpenRoot(p.Base + "/.") // a pipe is not waited for
	if err != nil {
		return Place{}, err
	}
	defer func() { _ = root.Close() }()
	if _, err := root.Stat(asked); errors.Is(err, fs.ErrNotExist) && !keep {
		if err := root.MkdirAll(asked, 0o755); err != nil {
			return Place{}, fmt.Errorf("making the subPath %q: %w", asked, err)
		}
	} else if err != nil {
		return Place{}, fmt.Errorf("reading the subPath %q: %w", asked, err)
	}
	base, err := filepath.EvalSymlinks(p.Base)
	if err != nil {
		return Place{}, err
	}
	real, err := filepath.EvalSymlinks(filepath.Join(base, asked))
	if err != nil {
		return Place{}, err
	}
	below, err := filepath.Rel(base, real)
	if err != nil || !filepath.IsLocal(below) {
		return Place{}, fmt.Errorf("the subPath %q leads outside the volume", asked)
	}
	return Place{Base: base, Below: below}, nil
}
