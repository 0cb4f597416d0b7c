package osfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// clearDepth is the depth, in folders, below which [Clear] moves a folder up. It keeps a
	// file descriptor open for each level, and a program can nest folders without end.
	clearDepth = 64
	// clearBatch is the number of entries that Clear reads at once.
	clearBatch = 1024
)

// Clear removes everything in a folder, whatever a program left there: folders without rights,
// files marked as immutable, folders nested deeper than a path can name. It follows no link but
// those in the path of dir. It leaves the entries of dir that keep names, mount points, and the
// folders above mount points. No other process may write to the folder meanwhile.
func Clear(ctx context.Context, dir string, keep ...string) (err error) {
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	top, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, top.Close()) }()
	c := &clearing{ctx: ctx, keep: keep}
	if c.folder, err = top.Open("."); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.folder.Close()) }()
	if c.mount, err = mountID(c.folder); err != nil {
		return err
	}
	if c.mounts, err = mountsBelow(dir); err != nil {
		return err
	}
	_, err = c.clear(top, "", 0)
	return err
}

// RemoveTree removes a folder with everything in it, as [Clear] does. A folder that is not there is no
// error; a mount below it is one, and stays.
func RemoveTree(ctx context.Context, dir string) error {
	if info, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil || !info.IsDir() {
		return errors.Join(err, os.Remove(dir))
	}
	if err := Clear(ctx, dir); err != nil {
		return err
	}
	return os.Remove(dir)
}

// clearing is one call of Clear.
type clearing struct {
	ctx    context.Context
	folder *os.File
	// keep are entries of the folder that stay.
	keep []string
	// mount is the kernel's number of the mount that the folder is on.
	mount string
	// mounts are the mount points below it, relative to it.
	mounts []string
	// moved is the number of folders that were moved up.
	moved int
}

// clear empties the folder in, which is at a path below the top. It reports whether something
// stays for good, which is no error.
func (c *clearing) clear(in *os.Root, at string, depth int) (stays bool, err error) {
	for {
		names, folder, err := c.read(in)
		if err != nil || folder == nil {
			return folder == nil, err
		}
		removed := 0
		var failed error
		stays = false
		for _, name := range names {
			if at == "" && slices.Contains(c.keep, name) {
				stays = true
				continue
			}
			gone, err := c.remove(in, folder, name, at, depth)
			switch {
			case gone:
				removed++
			case err == nil:
				stays = true
			case failed == nil:
				failed = err
			}
			if c.ctx.Err() != nil {
				break
			}
		}
		if err := errors.Join(c.ctx.Err(), folder.Close()); err != nil {
			return stays, err
		}
		if removed == 0 {
			return stays, failed
		}
	}
}

// read opens a folder and reads its first entries. The file is nil for a folder of another mount.
func (c *clearing) read(in *os.Root) ([]string, *os.File, error) {
	folder, err := in.Open(".")
	if err != nil {
		return nil, nil, err
	}
	fail := func(err error) ([]string, *os.File, error) {
		return nil, nil, errors.Join(err, folder.Close())
	}
	if id, err := mountID(folder); err != nil || id != c.mount {
		return fail(err)
	}
	if info, err := folder.Stat(); err != nil {
		return fail(err)
	} else if info.Mode()&0o700 != 0o700 {
		_ = folder.Chmod(0o700) // else a removal returns the error
	}
	names, err := folder.Readdirnames(clearBatch)
	if err != nil && !errors.Is(err, io.EOF) {
		return fail(err)
	}
	return names, folder, nil
}

// remove removes one entry. Neither gone nor an error: the entry is a mount point, or above one.
func (c *clearing) remove(in *os.Root, folder *os.File, name, at string, depth int) (gone bool, err error) {
	at = path.Join(at, name)
	err = in.Remove(name)
	if errors.Is(err, fs.ErrPermission) {
		release(folder, name)
		err = in.Remove(name)
	}
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return true, nil
	case errors.Is(err, unix.EBUSY):
		return false, nil
	case !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST):
		return false, err
	}
	release(folder, name)
	if depth >= clearDepth && !c.aboveMount(at) {
		err := c.moveUp(folder, name)
		return err == nil, err
	}
	below, err := OpenFolder(in, name)
	if err != nil {
		return false, err
	}
	stays, err := c.clear(below, at, depth+1)
	if err = errors.Join(err, below.Close()); err != nil || stays {
		return false, err
	}
	if err := in.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, nil
}

// moveUp moves a folder to the top, where a later pass finds it.
func (c *clearing) moveUp(from *os.File, name string) error {
	for {
		c.moved++
		err := unix.Renameat2(int(from.Fd()), name, int(c.folder.Fd()), ".cleared-"+strconv.Itoa(c.moved), unix.RENAME_NOREPLACE)
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
}

// aboveMount reports whether a mount point lies below a path.
func (c *clearing) aboveMount(at string) bool {
	return slices.ContainsFunc(c.mounts, func(m string) bool { return strings.HasPrefix(m, at+"/") })
}

// release removes the obstacles to the removal of a folder's entry: marks of the file system, such
// as those of chattr, and missing rights. If it cannot, the removal returns the error.
func release(folder *os.File, name string) {
	unmark(int(folder.Fd()))
	fd, err := unix.Openat(int(folder.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) != nil {
		return
	}
	kind := stat.Mode & unix.S_IFMT
	if kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return // to open a device or a pipe may do more
	}
	byNumber := "/proc/self/fd/" + strconv.Itoa(fd)
	if kind == unix.S_IFDIR && stat.Mode&0o700 != 0o700 {
		_ = os.Chmod(byNumber, 0o700)
	}
	if open, err := unix.Open(byNumber, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		unmark(open)
		_ = unix.Close(open)
	}
}

// unmark lets an open file or folder be changed that was marked as immutable or only to be appended to.
func unmark(fd int) {
	const marks = unix.STATX_ATTR_IMMUTABLE | unix.STATX_ATTR_APPEND // the kernel's FS_IMMUTABLE_FL and FS_APPEND_FL
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err == nil && flags&marks != 0 {
		_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags&^marks)
	}
}

// mountID is the kernel's number of the mount that an open file is on.
func mountID(file *os.File) (string, error) {
	info := "/proc/self/fdinfo/" + strconv.Itoa(int(file.Fd()))
	data, err := os.ReadFile(info)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", fmt.Errorf("reading %s: no mnt_id in it", info)
}

// MountPoint is a mount of this process's namespace.
type MountPoint struct {
	// ID is the kernel's number of it.
	ID string
	// Path is where it is.
	Path string
}

// MountPoints returns the mounts of this process's namespace, in the order in which they were made.
func MountPoints() ([]MountPoint, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var all []MountPoint
	for line := range strings.Lines(string(data)) {
		// "36 35 98:0 /root /mount-point options ..."
		if fields := strings.Fields(line); len(fields) >= 5 {
			all = append(all, MountPoint{ID: fields[0], Path: unescape(fields[4])})
		}
	}
	return all, nil
}

// mountsBelow returns the mount points below a folder, relative to it.
func mountsBelow(dir string) ([]string, error) {
	all, err := MountPoints()
	if err != nil {
		return nil, err
	}
	var below []string
	for _, m := range all {
		if rest, ok := strings.CutPrefix(m.Path, strings.TrimSuffix(dir, "/")+"/"); ok && rest != "" {
			below = append(below, rest)
		}
	}
	return below, nil
}

// unescape replaces the octal escapes of mountinfo (a space is \040).
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
