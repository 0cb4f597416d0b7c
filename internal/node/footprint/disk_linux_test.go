package footprint_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/muster-dev/muster/internal/node/footprint"
	"github.com/muster-dev/muster/internal/node/rig"
	"github.com/muster-dev/muster/internal/node/scratch"
	"github.com/muster-dev/muster/internal/node/userfiles"
	"github.com/muster-dev/muster/internal/room"
)

func TestMain(m *testing.M) { os.Exit(rig.RunAlone(m)) }

const loud, quiet = 61234, 61333

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// smallDisk mounts a file system of 1 GiB without blocks that only root may use.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts a file system")
	}
	dir := rig.Passable(t)
	image, at := filepath.Join(dir, "image"), filepath.Join(dir, "disk")
	must(t, errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 1<<30), os.Mkdir(at, 0o755)))
	for _, argv := range [][]string{{"mkfs.ext4", "-q", "-F", "-m", "0", image}, {"mount", "-o", "loop", image, at}} {
		if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Skipf("this machine mounts no file systems of files: %v: %s", err, out)
		}
	}
	t.Cleanup(func() { must(t, unix.Unmount(at, unix.MNT_DETACH)) })
	must(t, os.Chmod(at, 0o711))
	return at
}

// as runs a shell script as a user, in a folder, until the test ends.
func as(t *testing.T, uid uint32, dir, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid + 1}, Setpgid: true}
	must(t, cmd.Start())
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
	return cmd
}

// TestOneUserFillsTheDisk: on a real file system, the pod of a user who writes without end is stopped while
// the disk still has what Muster keeps for itself, and the pod of another user, which writes all the time,
// goes on.
func TestOneUserFillsTheDisk(t *testing.T) {
	disk := smallDisk(t)
	helpers := userfiles.New(userfiles.Options{Program: rig.Shim(t)})
	t.Cleanup(helpers.Close)
	homes := userfiles.NewHomes(filepath.Join(disk, "users"), helpers)
	pods := map[uint32]string{loud: "loud", quiet: "quiet"}
	folders := map[uint32]string{}
	for uid, pod := range pods {
		home, err := homes.Of(userfiles.User{UID: uid, GID: uid + 1})
		must(t, err)
		at := home.Place("pods", pod)
		must(t, home.MakeAll(t.Context(), at, 0o700))
		folders[uid] = at.String()
	}
	writer := as(t, loud, folders[loud], `i=0; while :; do i=$((i+1)); head -c 4194304 /dev/zero > $i || exit 1; sleep 0.01; done`)
	other := as(t, quiet, folders[quiet], `while echo line >> log && sync -d log; do sleep 0.01; done; touch failed`)
	evicted := make(chan string, 16)
	var stopped atomic.Bool
	k := footprint.New(footprint.Options{
		Users: homes.Users, Short: func() int64 { return footprint.Short(disk) }, Rest: 100 * time.Millisecond, Clock: clock.RealClock{},
		Measure: func(ctx context.Context, uid uint32) (footprint.Usage, error) {
			return footprint.Measure(ctx, footprint.Folders{Home: homes.Kept(uid), Temporary: func(string) string { return "" }})
		},
		Running: func(uid uint32) []string {
			if uid == loud && stopped.Load() {
				return nil
			}
			return []string{pods[uid]}
		},
		Evict: func(pod, _ string, short bool) {
			if pod == "loud" {
				_ = syscall.Kill(-writer.Process.Pid, syscall.SIGKILL)
				stopped.Store(true)
			}
			evicted <- fmt.Sprint(pod, " ", short)
		},
		Name: func(uint32) string { return "ann" },
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	defer func() { cancel(); <-done }()
	select {
	case got := <-evicted:
		if got != "loud true" {
			t.Errorf("evicted: %s", got)
		}
	case <-time.After(time.Minute):
		t.Fatal("nothing is stopped")
	}
	space, err := room.Look(disk)
	must(t, err)
	if space.Low() {
		t.Errorf("%d MiB are left: Muster refuses everything new", space.Free>>20)
	}
	if _, err := os.Stat(filepath.Join(folders[quiet], "failed")); err == nil || other.ProcessState != nil {
		t.Error("the other user found no space")
	}
	home := homes.Kept(loud)
	must(t, home.Remove(t.Context(), home.Place("pods", "loud")))
	if footprint.Short(disk) > 0 {
		t.Error("the disk is short after the removal")
	}
}

// TestMeasurer counts pods, temporary folders, claims and environments of a user, and nothing of others.
func TestMeasurer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: files of other users")
	}
	dir := rig.Passable(t)
	helpers := userfiles.New(userfiles.Options{Program: rig.Shim(t)})
	t.Cleanup(helpers.Close)
	homes := userfiles.NewHomes(filepath.Join(dir, "users"), helpers)
	const each = 1 << 20
	put := func(uid int, path string) {
		t.Helper()
		must(t, os.MkdirAll(filepath.Dir(path), 0o711))
		must(t, errors.Join(os.WriteFile(path, make([]byte, each), 0o600), os.Chown(path, uid, uid), os.Chown(filepath.Dir(path), uid, uid)))
	}
	for _, uid := range []uint32{loud, quiet} {
		home, err := homes.Of(userfiles.User{UID: uid, GID: uid + 1})
		must(t, err)
		must(t, errors.Join(home.MakeAll(t.Context(), home.Place("pods", "pod"), 0o700), home.MakeAll(t.Context(), home.Place("tmp", scratch.Name("pod")), 0o700)))
		at := home.Place().String()
		for _, path := range []string{
			at + "/pods/pod/file", at + "/tmp/" + scratch.Name("pod") + "/file", at + "/own/file",
			fmt.Sprintf("%s/volumes/u-%d/claim-uid/file", dir, uid), fmt.Sprintf("%s/environments/key-%d/venv/file", dir, uid),
		} {
			put(int(uid), path)
		}
	}
	put(0, dir+"/environments/shared/venv/file")
	got, err := footprint.Measurer(homes, dir+"/volumes", dir+"/environments")(t.Context(), loud)
	must(t, err)
	const slack = 64 << 10 // folders
	if got.Bytes < 5*each || got.Bytes > 5*each+slack || got.Pods["pod"] < 2*each || got.Pods["pod"] > 2*each+slack || got.Partial {
		t.Errorf("%+v", got)
	}
}
