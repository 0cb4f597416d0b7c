//go:build fuse

package roster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/mount"
	"github.com/muster-dev/muster/internal/data/ref"
)

// TestMain is a server, or somebody who asks for mounts until killed, where it is
// called as one.
func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == "serve":
		err = Serve(context.Background(), os.Args[3], source(os.Args[2]))
	case len(os.Args) == 5 && os.Args[1] == "ask":
		err = ask(os.Args[2], os.Args[3], os.Args[4])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// ask asks for a mount and gives it back, until it is killed.
func ask(dir, store, commit string) error {
	r, err := Open(Options{Dir: dir, Server: []string{os.Args[0], "serve", store}})
	for err == nil {
		if _, err = r.Ensure(context.Background(), "asker", Order{Commit: commit}); err == nil {
			err = r.Release("asker")
		}
	}
	return err
}

func source(store string) Source {
	return func(ctx context.Context, o Order) (*data.View, func(), error) {
		bytes, err := backend.OpenFolder(store)
		if err != nil {
			return nil, nil, err
		}
		s, err := data.Open(ctx, data.Options{Backend: bytes})
		if err != nil {
			return nil, nil, err
		}
		v, err := s.Dataset(&ref.Memory{}).At(ctx, o.Commit)
		return v, func() { _ = s.Close() }, err
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a store with a commit, and a folder of mounts.
type world struct {
	*testing.T
	dir, store, commit string
	// gone are users that are not there any more.
	gone map[string]bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, dir: filepath.Join(t.TempDir(), "mounts"), store: filepath.Join(t.TempDir(), "store"), gone: map[string]bool{}}
	bytes, err := backend.OpenFolder(w.store)
	must(t, err)
	s, err := data.Open(t.Context(), data.Options{Backend: bytes})
	must(t, err)
	r, err := s.Dataset(&ref.Memory{}).Put(t.Context(), "main", data.Contents([]data.Content{{Path: "a/b", Bytes: []byte("b")}, {Path: "c", Bytes: []byte("c")}}), data.PutOptions{})
	must(t, errors.Join(err, s.Close()))
	w.commit = r.Commit.ID.String()
	t.Cleanup(func() { // whatever a test left
		points, err := mount.Points(w.dir)
		must(t, err)
		for _, p := range points {
			must(t, mount.Unmount(p, true))
		}
	})
	return w
}

// open opens the roster as a process that starts does.
func (w *world) open() *Roster {
	w.Helper()
	r, err := Open(Options{Dir: w.dir, Server: []string{os.Args[0], "serve", w.store}})
	must(w.T, err)
	must(w.T, r.Sweep(func(user string) bool { return !w.gone[user] }))
	return r
}

func (w *world) ensure(r *Roster, user, path string) string {
	w.Helper()
	folder, err := r.Ensure(w.Context(), user, Order{Commit: w.commit, Path: path})
	must(w.T, err)
	return folder
}

// reads wants a file to have a content.
func (w *world) reads(path, want string) {
	w.Helper()
	if got, err := os.ReadFile(path); string(got) != want || err != nil {
		w.Errorf("%s has %q, %v", path, got, err)
	}
}

// mounted wants so many mounts and no folders but theirs.
func (w *world) mounted(n int) {
	w.Helper()
	points, err := mount.Points(w.dir)
	must(w.T, err)
	entries, err := os.ReadDir(w.dir)
	must(w.T, err)
	if len(points) != n || len(entries) != n {
		w.Errorf("mounted are %q in %v instead of %d", points, entries, n)
	}
}

// servers are the processes that serve mounts below the folder.
func (w *world) servers() (pids []int) {
	w.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(w.T, err)
	for _, path := range all {
		line, err := os.ReadFile(path)
		if words := strings.Split(string(line), "\x00"); err == nil && len(words) > 3 && words[1] == "serve" && strings.HasPrefix(words[3], w.dir+"/") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			must(w.T, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// until polls, as nothing tells that a foreign process has ended.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("%s: not after 20 s", what)
		}
	}
}

func TestUsersShareAMount(t *testing.T) {
	w := newWorld(t)
	r := w.open()
	one := w.ensure(r, "one", "a")
	if two := w.ensure(r, "two", "/a/"); two != one {
		t.Errorf("%s and %s", one, two)
	}
	other := w.ensure(r, "two", "")
	w.reads(filepath.Join(one, "b"), "b")
	w.reads(filepath.Join(other, "c"), "c")
	w.mounted(2)
	must(t, r.Release("one"))
	w.reads(filepath.Join(one, "b"), "b")
	w.mounted(2)
	must(t, r.Release("two"))
	w.mounted(0)
	w.until("the servers end", func() bool { return len(w.servers()) == 0 })
	must(t, r.Release("two"))
	if _, err := r.Ensure(t.Context(), "../x", Order{Commit: w.commit}); err == nil {
		t.Error("a user who is a path")
	}
}

func TestTheNextProcessFindsThem(t *testing.T) {
	w := newWorld(t)
	folder := w.ensure(w.open(), "one", "")
	servers := w.servers()
	next := w.open() // the first one is gone, without a word
	w.reads(filepath.Join(folder, "c"), "c")
	if again := w.ensure(next, "one", ""); again != folder {
		t.Errorf("%s and %s", folder, again)
	}
	if now := w.servers(); len(now) != 1 || now[0] != servers[0] {
		t.Errorf("servers %v, then %v", servers, now)
	}
	w.gone["one"] = true
	w.open()
	w.mounted(0)
	w.until("the server ends", func() bool { return len(w.servers()) == 0 })
}

func TestADeadServerIsReplaced(t *testing.T) {
	w := newWorld(t)
	r := w.open()
	folder := w.ensure(r, "one", "")
	kill := func() {
		for _, pid := range w.servers() {
			must(t, unix.Kill(pid, unix.SIGKILL))
		}
		w.until("nothing is connected", func() bool { return mount.Dead(folder) })
	}
	kill()
	if again := w.ensure(r, "one", ""); again != folder {
		t.Errorf("%s and %s", folder, again)
	}
	w.reads(filepath.Join(folder, "c"), "c")
	w.mounted(1)
	kill()
	must(t, r.Release("one"))
	w.mounted(0)
	w.ensure(r, "two", "")
	kill()
	w.gone["two"] = true
	w.open()
	w.mounted(0)
}

func TestAServerThatHangsIsTakenAway(t *testing.T) {
	w := newWorld(t)
	r := w.open()
	w.ensure(r, "one", "")
	pid := w.servers()[0]
	must(t, unix.Kill(pid, unix.SIGSTOP))
	w.ensure(r, "two", "") // it lives, as far as anybody can tell
	must(t, r.Release("one"))
	must(t, r.Release("two"))
	w.mounted(0)
	must(t, unix.Kill(pid, unix.SIGCONT))
	w.until("it ends", func() bool { return len(w.servers()) == 0 })
}

func TestWhoHasAFileOpenReadsOn(t *testing.T) {
	w := newWorld(t)
	r := w.open()
	folder := w.ensure(r, "one", "")
	file, err := os.Open(filepath.Join(folder, "c"))
	must(t, err)
	must(t, r.Release("one"))
	w.mounted(0)
	again := w.ensure(r, "two", "") // while the old server serves on
	if got, err := io.ReadAll(file); string(got) != "c" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	w.reads(filepath.Join(again, "c"), "c")
	if n := len(w.servers()); n != 2 {
		t.Errorf("%d servers", n)
	}
	must(t, file.Close())
	w.until("the old one ends", func() bool { return len(w.servers()) == 1 })
	must(t, r.Release("two"))
	w.mounted(0)
}

func TestManyAtOnceStartOneServer(t *testing.T) {
	w := newWorld(t)
	r := w.open()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { w.ensure(r, fmt.Sprint("user", i), "") })
	}
	all.Wait()
	w.mounted(1)
	if n := len(w.servers()); n != 1 {
		t.Errorf("%d servers", n)
	}
	// A server that was started by somebody who died finds one that serves.
	folder := filepath.Dir(w.ensure(r, "one", ""))
	late := exec.CommandContext(t.Context(), os.Args[0], "serve", w.store, folder)
	if said, err := late.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, said)
	}
	w.mounted(1)
	for i := range 8 {
		must(t, r.Release(fmt.Sprint("user", i)))
	}
	must(t, r.Release("one"))
	w.mounted(0)
	// And one whose folder was taken away mounts nothing.
	if said, err := exec.CommandContext(t.Context(), os.Args[0], "serve", w.store, folder).CombinedOutput(); err == nil {
		t.Errorf("it serves: %s", said)
	}
	w.mounted(0)
}

func TestWhatCannotBeMountedIsSaid(t *testing.T) {
	w := newWorld(t)
	r := w.open()
	for name, o := range map[string]Order{
		"is not in commit": {Commit: w.commit, Path: "nothing"},
		"reading commit 0": {Commit: strings.Repeat("0", 64)},
	} {
		if _, err := r.Ensure(t.Context(), "one", o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	broken, err := Open(Options{Dir: w.dir, Server: []string{"/bin/false"}})
	must(t, err)
	if _, err := broken.Ensure(t.Context(), "one", Order{Commit: w.commit}); err == nil || !strings.Contains(err.Error(), "ended without a word") {
		t.Errorf("%v", err)
	}
	must(t, r.Release("one"))
	w.mounted(0)
}

// TestKilledAtAnyMoment kills the process that asks for mounts, and gives them back,
// again and again; what its follower finds is usable, and can be taken away.
func TestKilledAtAnyMoment(t *testing.T) {
	w := newWorld(t)
	for i := range 15 {
		asker := exec.CommandContext(t.Context(), os.Args[0], "ask", w.dir, w.store, w.commit)
		must(t, asker.Start())
		time.Sleep(time.Duration(20+i*13) * time.Millisecond) // the moments are the test
		must(t, asker.Process.Kill())
		_ = asker.Wait()
		r := w.open()
		w.reads(filepath.Join(w.ensure(r, "one", ""), "c"), "c")
		must(t, r.Release("one"))
		must(t, r.Release("asker"))
		w.mounted(0)
	}
	w.until("no server is left", func() bool { return len(w.servers()) == 0 })
}
