package userfiles_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	fusefs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/rig"
	"github.com/muster-dev/muster/internal/node/userfiles"
)

func TestMain(m *testing.M) { os.Exit(rig.RunAlone(m)) }

// ada and eve are users that the machine needs no account for.
var (
	ada = userfiles.User{UID: 61234, GID: 61235, Groups: []uint32{61236, 61237}}
	eve = userfiles.User{UID: 61333, GID: 61334}
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// helpers are those of the shim as the product has it.
func helpers(t testing.TB, o userfiles.Options) *userfiles.Helpers {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("it needs root: it becomes other users")
	}
	o.Program = rig.Shim(t)
	h := userfiles.New(o)
	t.Cleanup(h.Close)
	return h
}

// temp is a folder that users may pass: the testing package makes one for its own user alone.
func temp(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	must(t, errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)))
	return dir
}

// folder makes a folder of a user's.
func folder(t testing.TB, u userfiles.User, mode os.FileMode) string {
	t.Helper()
	dir := filepath.Join(temp(t), "home")
	must(t, errors.Join(os.Mkdir(dir, mode), os.Chmod(dir, mode), os.Chown(dir, int(u.UID), int(u.GID))))
	return dir
}

// mountFor mounts a FUSE file system that the kernel shows to one user alone, as it does without allow_other
// and allow_root. It is served, or hangs.
func mountFor(t testing.TB, u userfiles.User, served bool) string {
	t.Helper()
	point := folder(t, u, 0o755)
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip("it needs /dev/fuse: ", err)
	}
	fd := int(device.Fd())
	must(t, unix.Mount("home", point, "fuse.home", unix.MS_NOSUID|unix.MS_NODEV,
		fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,default_permissions", fd, u.UID, u.GID)))
	t.Cleanup(func() { _ = unix.Unmount(point, unix.MNT_DETACH|unix.MNT_FORCE); _ = device.Close() })
	if !served {
		return point
	}
	root, err := fusefs.NewLoopbackRoot(folder(t, u, 0o700))
	must(t, err)
	own, err := unix.FcntlInt(device.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	must(t, err)
	server, err := fuse.NewServer(fusefs.NewNodeFS(root, &fusefs.Options{}), fmt.Sprintf("/dev/fd/%d", own), &fuse.MountOptions{})
	must(t, err)
	done := make(chan struct{})
	go func() { defer close(done); server.Serve() }()
	t.Cleanup(func() {
		_ = unix.Unmount(point, unix.MNT_DETACH|unix.MNT_FORCE)
		_ = device.Close()
		<-done
	})
	return point
}

// processes are the helpers that are children of this process, by their arguments.
func processes(t testing.TB) (pids []int) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, file := range list {
		line, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(line), "\x00"+userfiles.Verb+"\x00") {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/", &pid); err == nil && parentOf(pid) == os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func parentOf(pid int) (parent int) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	var state string
	_, _ = fmt.Sscanf(rest, "%s %d", &state, &parent)
	if state == "Z" {
		return 0
	}
	return parent
}

// eventually waits for what another process does.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	end := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it did not happen: ", what)
		}
	}
}

// descriptors is the number of files that this process has open.
func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}
