//go:build linux

package powertest

import (
	"context"
	"maps"
	"slices"
	"syscall"
	"time"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// thing is a file or a folder: its content now, and its content as of its last
// fsync.
type thing struct {
	disk  *Disk
	inode uint64

	names, safeNames map[string]*thing // of a folder
	bytes, safeBytes []byte            // of a file
	mode             uint32
	written          time.Time
}

// node is the kernel's handle of a thing. Each lookup makes one, since an inode that the kernel
// has forgotten must not be used again.
type node struct {
	gofs.Inode
	*thing
}

func (d *Disk) folder(mode uint32) *thing {
	d.inodes++
	return &thing{disk: d, inode: d.inodes, mode: mode & 0o7777, written: time.Now(), names: map[string]*thing{}, safeNames: map[string]*thing{}}
}

func (d *Disk) file(mode uint32) *thing {
	d.inodes++
	return &thing{disk: d, inode: d.inodes, mode: mode & 0o7777, written: time.Now()}
}

func (t *thing) kind() uint32 {
	if t.names != nil {
		return syscall.S_IFDIR
	}
	return syscall.S_IFREG
}

// restore calls lost for each file and folder. If lost returns true, restore discards the changes
// since the last fsync; otherwise it makes them durable. All get new inode numbers, as if the disk
// was mounted anew: the kernel would keep a folder dead whose removal was lost.
func (t *thing) restore(lost func() bool, seen map[*thing]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	t.disk.inodes++
	t.inode = t.disk.inodes
	if lost() {
		t.bytes, t.names = slices.Clone(t.safeBytes), maps.Clone(t.safeNames)
	}
	t.safeBytes, t.safeNames = slices.Clone(t.bytes), maps.Clone(t.names)
	for _, name := range slices.Sorted(maps.Keys(t.names)) {
		t.names[name].restore(lost, seen)
	}
}

func (t *thing) attr(out *fuse.Attr) {
	out.Ino, out.Mode, out.Nlink = t.inode, t.kind()|t.mode, 1
	out.Size = uint64(len(t.bytes))
	out.SetTimes(nil, &t.written, nil)
}

func (t *node) child(ctx context.Context, c *thing, out *fuse.EntryOut) *gofs.Inode {
	c.attr(&out.Attr)
	return t.NewInode(ctx, &node{thing: c}, gofs.StableAttr{Mode: c.kind(), Ino: c.inode})
}

// Lookup implements [gofs.NodeLookuper].
func (t *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (found *gofs.Inode, errno syscall.Errno) {
	errno = t.disk.look(func() syscall.Errno {
		c := t.names[name]
		if c == nil {
			return syscall.ENOENT
		}
		found = t.child(ctx, c, out)
		return 0
	})
	return found, errno
}

// Getattr implements [gofs.NodeGetattrer].
func (t *node) Getattr(_ context.Context, _ gofs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	t.disk.mu.Lock()
	defer t.disk.mu.Unlock()
	t.attr(&out.Attr)
	return 0
}

// Setattr implements [gofs.NodeSetattrer].
func (t *node) Setattr(_ context.Context, _ gofs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return t.disk.change(func() syscall.Errno {
		if size, ok := in.GetSize(); ok {
			t.bytes = append(make([]byte, 0, size), t.bytes[:min(uint64(len(t.bytes)), size)]...)[:size]
			t.written = time.Now()
		}
		if mode, ok := in.GetMode(); ok {
			t.mode = mode & 0o7777
		}
		if at, ok := in.GetMTime(); ok {
			t.written = at
		}
		t.attr(&out.Attr)
		return 0
	})
}

// Mkdir implements [gofs.NodeMkdirer].
func (t *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (made *gofs.Inode, errno syscall.Errno) {
	errno = t.disk.change(func() syscall.Errno {
		if t.names[name] != nil {
			return syscall.EEXIST
		}
		c := t.disk.folder(mode)
		t.names[name] = c
		made = t.child(ctx, c, out)
		return 0
	})
	return made, errno
}

// Create implements [gofs.NodeCreater].
func (t *node) Create(ctx context.Context, name string, _, mode uint32, out *fuse.EntryOut) (made *gofs.Inode, handle gofs.FileHandle, flags uint32, errno syscall.Errno) {
	errno = t.disk.change(func() syscall.Errno {
		c := t.disk.file(mode)
		t.names[name] = c
		made = t.child(ctx, c, out)
		return 0
	})
	return made, nil, fuse.FOPEN_DIRECT_IO, errno
}

// Open implements [gofs.NodeOpener].
func (t *node) Open(context.Context, uint32) (gofs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

// Read implements [gofs.NodeReader].
func (t *node) Read(_ context.Context, _ gofs.FileHandle, into []byte, at int64) (result fuse.ReadResult, errno syscall.Errno) {
	errno = t.disk.look(func() syscall.Errno {
		n := 0
		if at < int64(len(t.bytes)) {
			n = copy(into, t.bytes[at:])
		}
		result = fuse.ReadResultData(into[:n])
		return 0
	})
	return result, errno
}

// Write implements [gofs.NodeWriter].
func (t *node) Write(_ context.Context, _ gofs.FileHandle, from []byte, at int64) (uint32, syscall.Errno) {
	errno := t.disk.change(func() syscall.Errno {
		if more := at + int64(len(from)) - int64(len(t.bytes)); more > 0 {
			t.bytes = append(t.bytes, make([]byte, more)...)
		}
		copy(t.bytes[at:], from)
		t.written = time.Now()
		return 0
	})
	return uint32(len(from)), errno
}

// Fsync implements [gofs.NodeFsyncer], for files and folders.
func (t *node) Fsync(context.Context, gofs.FileHandle, uint32) syscall.Errno {
	return t.disk.change(func() syscall.Errno {
		t.safeBytes, t.safeNames = slices.Clone(t.bytes), maps.Clone(t.names)
		return 0
	})
}

// Unlink implements [gofs.NodeUnlinker].
func (t *node) Unlink(_ context.Context, name string) syscall.Errno {
	return t.disk.change(func() syscall.Errno {
		c := t.names[name]
		switch {
		case c == nil:
			return syscall.ENOENT
		case len(c.names) > 0:
			return syscall.ENOTEMPTY
		}
		delete(t.names, name)
		return 0
	})
}

// Rmdir implements [gofs.NodeRmdirer].
func (t *node) Rmdir(ctx context.Context, name string) syscall.Errno { return t.Unlink(ctx, name) }

// Rename implements [gofs.NodeRenamer].
func (t *node) Rename(_ context.Context, name string, to gofs.InodeEmbedder, toName string, _ uint32) syscall.Errno {
	return t.disk.change(func() syscall.Errno {
		folder := to.(*node)
		if there := folder.names[toName]; there != nil && len(there.names) > 0 {
			return syscall.ENOTEMPTY
		}
		folder.names[toName] = t.names[name]
		delete(t.names, name)
		return 0
	})
}

// Readdir implements [gofs.NodeReaddirer].
func (t *node) Readdir(context.Context) (stream gofs.DirStream, errno syscall.Errno) {
	errno = t.disk.look(func() syscall.Errno {
		var all []fuse.DirEntry
		for _, name := range slices.Sorted(maps.Keys(t.names)) {
			c := t.names[name]
			all = append(all, fuse.DirEntry{Name: name, Ino: c.inode, Mode: c.kind()})
		}
		stream = gofs.NewListDirStream(all)
		return 0
	})
	return stream, errno
}
