package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Passable is a folder that every user may pass: the testing package makes one for its own user alone.
func Passable(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Folder makes a folder of a user's.
func Folder(t testing.TB, uid, gid int, mode os.FileMode) string {
	t.Helper()
	dir := filepath.Join(Passable(t), "home")
	if err := errors.Join(os.Mkdir(dir, mode), os.Chmod(dir, mode), os.Chown(dir, uid, gid)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Squashed mounts a FUSE file system that the kernel shows to one user and to nobody else: root is refused,
// as by NFS with root_squash. It needs root.
func Squashed(t testing.TB, uid, gid int) string {
	t.Helper()
	point, device := mountHome(t, uid, gid)
	root, err := fusefs.NewLoopbackRoot(Folder(t, uid, gid, 0o700))
	if err != nil {
		t.Fatal(err)
	}
	own, err := unix.FcntlInt(device.Fd(), unix.F_DUPFD_CLOEXEC, 3) // the library closes its own
	if err != nil {
		t.Fatal(err)
	}
	server, err := fuse.NewServer(fusefs.NewNodeFS(root, &fusefs.Options{}), fmt.Sprintf("/dev/fd/%d", own), &fuse.MountOptions{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve() }()
	t.Cleanup(func() {
		_ = unix.Unmount(point, unix.MNT_DETACH|unix.MNT_FORCE)
		_ = device.Close()
		<-done
	})
	return point
}

// Hanging is a file system as Squashed mounts it whose server gives no answer.
func Hanging(t testing.TB, uid, gid int) string {
	t.Helper()
	point, _ := mountHome(t, uid, gid)
	return point
}

// mountHome mounts a file system that is not served yet.
func mountHome(t testing.TB, uid, gid int) (point string, device *os.File) {
	t.Helper()
	point = Folder(t, uid, gid, 0o755)
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip("it needs /dev/fuse: ", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,default_permissions", device.Fd(), uid, gid)
	if err := unix.Mount("home", point, "fuse.home", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		t.Fatal("mounting a home: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(point, unix.MNT_DETACH|unix.MNT_FORCE); _ = device.Close() })
	return point, device
}
