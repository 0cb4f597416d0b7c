package userfiles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// mostCounted is the number of files that a measurement counts.
	mostCounted = 10 << 20
	// deepestCounted is the depth, in folders, to which it looks.
	deepestCounted = 512
	// block is the unit of st_blocks, in bytes.
	block = 512
)

// Tree is what the files of a folder need on the disk.
type Tree struct {
	Bytes int64 `json:"bytes"`
	Files int64 `json:"files"`
	// Partial is true if some files were not counted: there are too many, or they lie too deep.
	Partial bool `json:"partial,omitempty"`
}

// Measure counts the files and bytes of a folder, itself included. A file with several names counts once.
// Folders that the user cannot read are made readable: bytes could hide there.
func (f *Files) Measure(ctx context.Context, p Place) (Tree, error) {
	answer, err := f.ask(ctx, f.helpers.options.TreeLimit, "measuring", request{Call: callMeasure, Place: p}, nil)
	if err != nil {
		return Tree{}, err
	}
	return answer.Tree, nil
}

// inode is a file with several names.
type inode struct{ dev, number uint64 }

// counting is a measurement that goes on.
type counting struct {
	tree Tree
	dev  uint64
	many map[inode]bool
	most int64
	deep int
}

// measure runs in a helper, as the user.
func (p Place) measure() (Tree, error) { return p.count(mostCounted, deepestCounted) }

func (p Place) count(most int64, deep int) (Tree, error) {
	fd, err := p.openFD(unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return Tree{}, err
	}
	defer func() { _ = unix.Close(fd) }()
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return Tree{}, err
	}
	c := &counting{dev: s.Dev, many: map[inode]bool{}, most: most, deep: deep}
	c.add(&s)
	if s.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = c.folder(unix.AT_FDCWD, byNumber(fd), &s, 0)
	}
	return c.tree, err
}

// add counts one file.
func (c *counting) add(s *unix.Stat_t) {
	if s.Nlink > 1 && s.Mode&unix.S_IFMT != unix.S_IFDIR {
		at := inode{s.Dev, s.Ino}
		if c.many[at] {
			return
		}
		c.many[at] = true
	}
	c.tree.Files++
	c.tree.Bytes += s.Blocks * block
}

// folder counts the entries of a folder, by its name in an open one.
func (c *counting) folder(in int, name string, s *unix.Stat_t, depth int) error {
	if depth > c.deep {
		c.tree.Partial = true
		return nil
	}
	fd, err := c.enter(in, name, s, depth)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EXDEV) || errors.Is(err, unix.ELOOP) {
		return nil // removed or replaced meanwhile, or a mount
	}
	if err != nil {
		return err
	}
	folder := os.NewFile(uintptr(fd), name)
	defer func() { _ = folder.Close() }()
	for {
		list, err := folder.ReadDir(mostNames)
		for _, e := range list {
			if c.tree.Files >= c.most {
				c.tree.Partial = true
				return nil
			}
			if err := c.entry(fd, e.Name(), depth); err != nil {
				return err
			}
		}
		if len(list) == 0 {
			return ignoreEnd(err)
		}
	}
}

// entry counts an entry of an open folder. A mount is not asked: its file system may hang.
func (c *counting) entry(in int, name string, depth int) error {
	fd, err := openAt(in, name, unix.OpenHow{
		Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS,
	})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EXDEV) {
		return nil
	}
	if err != nil {
		return err
	}
	var s unix.Stat_t
	err = unix.Fstat(fd, &s)
	_ = unix.Close(fd)
	if err != nil {
		return err
	}
	c.add(&s)
	if s.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	return c.folder(in, name, &s, depth+1)
}

// enter opens a folder for reading. One of the user's own that is closed is opened.
func (c *counting) enter(in int, name string, s *unix.Stat_t, depth int) (int, error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC}
	if depth > 0 { // the first one is by its number, which is a link of /proc
		how.Flags |= unix.O_NOFOLLOW
		how.Resolve = unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS
	}
	open := s.Mode&0o500 == 0o500
	if !open && int(s.Uid) == os.Geteuid() {
		if err := unix.Fchmodat(in, name, s.Mode&0o7777|0o500, 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return -1, fmt.Errorf("opening the folder %q: %w", name, err)
		}
	}
	return openAt(in, name, how)
}
