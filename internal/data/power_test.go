//go:build fuse

package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/bale"
	"github.com/muster-dev/muster/internal/data/ref"
)

// disk is a file system that forgets what was not synced when its power is cut: of a file
// all but what it had when it was synced last, of a folder all names but those that it had
// then. No file system of Linux forgets more.
type disk struct {
	mu sync.Mutex
	// cutAt is at which change the power is cut, 0: never; changes is how many there were.
	cutAt, changes int
	off            bool
	inos           uint64
}

// thing is a file or a folder: what it has, and what it would have after a cut.
type thing struct {
	gofs.Inode
	disk *disk
	ino  uint64

	names, safeNames map[string]*thing // of a folder
	bytes, safeBytes []byte            // of a file
	written          time.Time
}

func (d *disk) folder() *thing {
	d.inos++
	return &thing{disk: d, ino: d.inos, names: map[string]*thing{}, safeNames: map[string]*thing{}}
}

func (d *disk) file() *thing {
	d.inos++
	return &thing{disk: d, ino: d.inos, written: time.Now()}
}

func (t *thing) isFolder() bool { return t.names != nil }

// change makes a change, unless the power is off by then.
func (d *disk) change(do func() syscall.Errno) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changes++; d.changes == d.cutAt {
		d.off = true
	}
	if d.off {
		return syscall.EIO
	}
	return do()
}

// restore has the power back, and what is left.
func (d *disk) restore(root *thing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off, d.cutAt = false, 0
	root.forget(map[*thing]bool{})
}

func (t *thing) forget(seen map[*thing]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	if !t.isFolder() {
		t.bytes = slices.Clone(t.safeBytes)
		return
	}
	t.names = maps.Clone(t.safeNames)
	for _, inner := range t.names {
		inner.forget(seen)
	}
}

func (t *thing) attr(out *fuse.Attr) {
	out.Ino, out.Mode, out.Nlink = t.ino, syscall.S_IFREG|0o644, 1
	if t.isFolder() {
		out.Mode = syscall.S_IFDIR | 0o755
	}
	out.Size = uint64(len(t.bytes))
	out.SetTimes(nil, &t.written, nil)
}

func (t *thing) child(ctx context.Context, c *thing, out *fuse.EntryOut) *gofs.Inode {
	c.attr(&out.Attr)
	mode := uint32(syscall.S_IFREG)
	if c.isFolder() {
		mode = syscall.S_IFDIR
	}
	return t.NewInode(ctx, c, gofs.StableAttr{Mode: mode, Ino: c.ino})
}

func (t *thing) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	t.disk.mu.Lock()
	defer t.disk.mu.Unlock()
	if t.disk.off {
		return nil, syscall.EIO
	}
	c := t.names[name]
	if c == nil {
		return nil, syscall.ENOENT
	}
	return t.child(ctx, c, out), 0
}

func (t *thing) Getattr(_ context.Context, _ gofs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	t.disk.mu.Lock()
	defer t.disk.mu.Unlock()
	t.attr(&out.Attr)
	return 0
}

func (t *thing) Setattr(_ context.Context, _ gofs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return t.disk.change(func() syscall.Errno {
		if size, ok := in.GetSize(); ok {
			t.bytes = append(make([]byte, 0, size), t.bytes[:min(uint64(len(t.bytes)), size)]...)[:size]
		}
		t.attr(&out.Attr)
		return 0
	})
}

func (t *thing) Mkdir(ctx context.Context, name string, _ uint32, out *fuse.EntryOut) (made *gofs.Inode, errno syscall.Errno) {
	errno = t.disk.change(func() syscall.Errno {
		if t.names[name] != nil {
			return syscall.EEXIST
		}
		c := t.disk.folder()
		t.names[name] = c
		made = t.child(ctx, c, out)
		return 0
	})
	return made, errno
}

func (t *thing) Create(ctx context.Context, name string, _, _ uint32, out *fuse.EntryOut) (made *gofs.Inode, fh gofs.FileHandle, flags uint32, errno syscall.Errno) {
	errno = t.disk.change(func() syscall.Errno {
		c := t.disk.file()
		t.names[name] = c
		made = t.child(ctx, c, out)
		return 0
	})
	return made, nil, fuse.FOPEN_DIRECT_IO, errno
}

func (t *thing) Open(context.Context, uint32) (gofs.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_DIRECT_IO, 0
}

func (t *thing) Read(_ context.Context, _ gofs.FileHandle, into []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	t.disk.mu.Lock()
	defer t.disk.mu.Unlock()
	if t.disk.off {
		return nil, syscall.EIO
	}
	n := 0
	if at < int64(len(t.bytes)) {
		n = copy(into, t.bytes[at:])
	}
	return fuse.ReadResultData(into[:n]), 0
}

func (t *thing) Write(_ context.Context, _ gofs.FileHandle, from []byte, at int64) (uint32, syscall.Errno) {
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

func (t *thing) Fsync(context.Context, gofs.FileHandle, uint32) syscall.Errno {
	return t.disk.change(func() syscall.Errno {
		t.safeBytes = slices.Clone(t.bytes)
		t.safeNames = maps.Clone(t.names)
		return 0
	})
}

func (t *thing) Unlink(_ context.Context, name string) syscall.Errno {
	return t.disk.change(func() syscall.Errno {
		delete(t.names, name)
		return 0
	})
}

func (t *thing) Rmdir(ctx context.Context, name string) syscall.Errno { return t.Unlink(ctx, name) }

func (t *thing) Rename(_ context.Context, name string, to gofs.InodeEmbedder, toName string, _ uint32) syscall.Errno {
	return t.disk.change(func() syscall.Errno {
		to.(*thing).names[toName] = t.names[name]
		delete(t.names, name)
		return 0
	})
}

func (t *thing) Readdir(context.Context) (gofs.DirStream, syscall.Errno) {
	t.disk.mu.Lock()
	defer t.disk.mu.Unlock()
	var all []fuse.DirEntry
	for _, name := range slices.Sorted(maps.Keys(t.names)) {
		c := t.names[name]
		mode := uint32(syscall.S_IFREG)
		if c.isFolder() {
			mode = syscall.S_IFDIR
		}
		all = append(all, fuse.DirEntry{Name: name, Ino: c.ino, Mode: mode})
	}
	return gofs.NewListDirStream(all), 0
}

// TestPowerIsCut cuts the power at every change of a disk while commits are put, contents
// sent ahead, branches merged and what nobody needs collected: what was acknowledged is
// there and whole afterwards, and the store goes on. Heads are elsewhere, as the API
// server's are.
func TestPowerIsCut(t *testing.T) {
	total := powered(t, 0)
	t.Logf("%d changes of the disk", total)
	for at := 1; at <= total; at++ {
		powered(t, at)
		if t.Failed() {
			t.Fatalf("the power was cut at change %d of %d", at, total)
		}
	}
}

// powered runs the course on a disk whose power is cut, and says how many changes it took.
func powered(t *testing.T, cutAt int) int {
	t.Helper()
	d := &disk{}
	root := d.folder()
	dir := t.TempDir()
	server, err := gofs.Mount(dir, root, &gofs.Options{MountOptions: fuse.MountOptions{FsName: "disk", DirectMount: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	}()
	heads := &ref.Memory{}
	begin := func() (*Store, error) {
		folder, err := backend.OpenFolder(filepath.Join(dir, "store"))
		if err != nil {
			return nil, err
		}
		s, err := Open(t.Context(), Options{Backend: bale.Over(folder)})
		if err == nil {
			s.slack, s.joining = 0, joining{small: 1 << 20, least: 1, full: 200_000, most: 9}
		}
		return s, err
	}
	store, err := begin()
	if err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	d.changes, d.cutAt = 0, cutAt
	d.mu.Unlock()
	acknowledged := map[string]map[string]string{}
	err = course(t.Context(), store, heads, acknowledged)
	if err = errors.Join(err, store.Close()); err != nil && cutAt == 0 {
		t.Fatal(err)
	}
	d.mu.Lock()
	changes := d.changes
	d.mu.Unlock()
	d.restore(root)
	if store, err = begin(); err != nil {
		t.Fatalf("after the cut: %v", err)
	}
	for name, want := range acknowledged {
		got := held(t, store.Dataset(heads), name)
		for path, text := range want {
			if got[path] != text {
				t.Errorf("%s on %s was acknowledged, and is %.20q", path, name, got[path])
			}
		}
	}
	if found, err := store.Verify(t.Context(), VerifyOptions{Heads: []ref.Heads{heads}, Bytes: true}); err != nil || len(found.Problems) > 0 {
		t.Errorf("after the cut: %+v, %v", found.Problems, err)
	}
	again := map[string]map[string]string{}
	if err := errors.Join(course(t.Context(), store, heads, again), store.Close()); err != nil {
		t.Errorf("going on after the cut: %v", err)
	}
	return changes
}

// course puts, sends ahead, merges and collects; what is acknowledged is noted.
func course(ctx context.Context, store *Store, heads ref.Heads, acknowledged map[string]map[string]string) error {
	d := store.Dataset(heads)
	note := func(branch string, from string, more map[string]string) {
		all := maps.Clone(acknowledged[from])
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, more)
		acknowledged[branch] = all
	}
	long := strings.Repeat("long ", 300_000)
	for i := range 2 {
		name := fmt.Sprint("f", i)
		if _, err := d.Put(ctx, "main", Stream(name, strings.NewReader(name+long)), PutOptions{}); err != nil {
			return err
		}
		note("main", "main", map[string]string{name: name + long})
	}
	s, err := d.Begin(ctx, "main", SessionOptions{})
	if err != nil {
		return err
	}
	contents := []Content{store.Content("a", []byte("1")), store.Content("b", []byte("2"))}
	err = errors.Join(s.Send(ctx, contents[:1]), s.Send(ctx, contents[1:]), s.Add(ctx, Contents(contents), AddOptions{}))
	if err == nil {
		_, err = s.Commit(ctx, CommitOptions{})
	}
	if err = errors.Join(err, s.Close(ctx)); err != nil {
		return err
	}
	note("main", "main", map[string]string{"a": "1", "b": "2"})
	if _, err := d.Put(ctx, "side", Stream("side", strings.NewReader("3")), PutOptions{}); err != nil {
		return err
	}
	note("side", "side", map[string]string{"side": "3"})
	if _, err := d.Merge(ctx, MergeOptions{From: "side", Into: "main"}); err != nil {
		return err
	}
	note("main", "main", acknowledged["side"])
	if err := d.Remove(ctx, ref.Name{Kind: ref.Branch, Name: "side"}); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	delete(acknowledged, "side")
	if _, err := d.Put(ctx, "gone", Stream("gone", strings.NewReader(noise(1, 100_000))), PutOptions{}); err != nil {
		return err
	}
	if _, err = store.Collect(ctx, CollectOptions{Heads: []ref.Heads{heads}}); err != nil {
		return err
	}
	// What lies together goes, but for a little, which comes together anew.
	if err := d.Remove(ctx, ref.Name{Kind: ref.Branch, Name: "gone"}); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for range 2 {
		if _, err = store.Collect(ctx, CollectOptions{Heads: []ref.Heads{heads}}); err != nil {
			return err
		}
	}
	return nil
}
