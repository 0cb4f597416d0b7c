//go:build linux

package powertest

import (
	"sync"
	"syscall"
	"testing"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Disk is a mounted file system.
type Disk struct {
	dir  string
	root *thing

	mu sync.Mutex
	// cutAt is the change at which the power is cut, 0: never; changes counts them.
	cutAt, changes int
	off            bool
	inodes         uint64
}

// Mount mounts an empty file system until the test ends.
func Mount(t testing.TB) *Disk {
	t.Helper()
	d := &Disk{dir: t.TempDir()}
	d.root = d.folder(0o755)
	server, err := gofs.Mount(d.dir, &node{thing: d.root}, &gofs.Options{MountOptions: fuse.MountOptions{FsName: "powertest", DirectMount: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// Dir is the mount point.
func (d *Disk) Dir() string { return d.dir }

// CutAt starts to count changes, and cuts the power at the nth from now. 0 never
// cuts it.
func (d *Disk) CutAt(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changes, d.cutAt = 0, n
}

// Changes is the number of changes since [Disk.CutAt].
func (d *Disk) Changes() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changes
}

// Restore brings the power back, after cutting it if it was on. It calls lost for each
// file and each folder, which loses its unsynced changes if lost returns true. A nil
// lost loses all of them.
func (d *Disk) Restore(lost func() bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off, d.cutAt = false, 0
	if lost == nil {
		lost = func() bool { return true }
	}
	d.root.restore(lost, map[*thing]bool{})
}

// change makes a change, unless the power is off.
func (d *Disk) change(do func() syscall.Errno) syscall.Errno {
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

// look reads something, unless the power is off.
func (d *Disk) look(do func() syscall.Errno) syscall.Errno {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return syscall.EIO
	}
	return do()
}
