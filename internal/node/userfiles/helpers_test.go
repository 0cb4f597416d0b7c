package userfiles_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/rig"
	"github.com/muster-dev/muster/internal/node/userfiles"
)

// TestIdentity: the helper is the user in every respect, has no right of root's left, and cannot be traced.
func TestIdentity(t *testing.T) {
	h := helpers(t, userfiles.Options{})
	dir := folder(t, ada, 0o700)
	must(t, h.As(ada).MakeAll(t.Context(), userfiles.Place{Base: dir, Below: "a/b"}, 0o777))
	info, err := os.Stat(filepath.Join(dir, "a/b"))
	must(t, err)
	if stat := sys(t, info); stat.Uid != ada.UID || stat.Gid != ada.GID || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is of user %d and group %d, mode %v", stat.Uid, stat.Gid, info.Mode())
	}
	own := processes(t)
	if len(own) != 1 {
		t.Fatalf("there are %d helpers", len(own))
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", own[0]))
	must(t, err)
	for _, file := range threads {
		status, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		must(t, err)
		for name, want := range map[string]string{
			"Uid": "61234\t61234\t61234\t61234", "Gid": "61235\t61235\t61235\t61235", "Groups": "61236 61237",
			"CapPrm": "0000000000000000", "CapEff": "0000000000000000", "CapAmb": "0000000000000000", "CapInh": "0000000000000000", "NoNewPrivs": "1",
		} {
			if got := field(string(status), name); got != want {
				t.Errorf("%s is %q in %s, want %q", name, got, file, want)
			}
		}
	}
	// Its files in /proc are root's, so that its user cannot open them.
	info, err = os.Stat(fmt.Sprintf("/proc/%d/mem", own[0]))
	must(t, err)
	if sys(t, info).Uid != 0 {
		t.Error("the user may trace the helper")
	}
	if environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", own[0])); err != nil || string(environ) != "GOMAXPROCS=2\x00" {
		t.Errorf("the helper has the variables %q, error %v", environ, err)
	}
}

func field(status, name string) string {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TestOthers: what belongs to another user, or to root, is refused by the kernel.
func TestOthers(t *testing.T) {
	h := helpers(t, userfiles.Options{})
	dir := folder(t, eve, 0o700)
	must(t, os.WriteFile(filepath.Join(dir, "secret"), nil, 0o644))
	own := folder(t, ada, 0o755)
	must(t, os.Symlink(dir, filepath.Join(own, "link")))
	f := h.As(ada)
	for name, err := range map[string]error{
		"open":      open(t, f, userfiles.Place{Base: dir + "/secret"}),
		"by a link": open(t, f, userfiles.Place{Base: own + "/link/secret"}),
		"shadow":    open(t, f, userfiles.Place{Base: "/etc/shadow"}),
		"make":      f.MakeAll(t.Context(), userfiles.Place{Base: dir, Below: "x"}, 0o700),
		"remove":    f.Remove(t.Context(), userfiles.Place{Base: dir, Below: "secret"}),
		"list":      f.List(t.Context(), userfiles.Place{Base: dir}, func(userfiles.Entry) error { return nil }),
		"link":      f.Link(t.Context(), userfiles.Place{Base: dir, Below: "x"}, "/"),
	} {
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "secret")); err != nil {
		t.Error(err)
	}
}

func open(t *testing.T, f *userfiles.Files, p userfiles.Place) error {
	file, _, err := f.Open(t.Context(), p, unix.O_RDONLY, 0)
	if err == nil {
		err = file.Close()
	}
	return err
}

// TestLinks: below the base no link is followed, whoever made it; in the base, unless the caller refuses it.
// Links of /proc, which would lead to files of the helper, are followed nowhere.
func TestLinks(t *testing.T) {
	h := helpers(t, userfiles.Options{})
	dir := folder(t, ada, 0o700)
	must(t, errors.Join(
		os.MkdirAll(dir+"/real/in", 0o755), os.WriteFile(dir+"/real/in/file", []byte("it"), 0o644),
		os.Symlink("real", dir+"/link"), os.Symlink("in/file", dir+"/real/file")))
	f := h.As(ada)
	for name, c := range map[string]struct {
		place userfiles.Place
		want  error
	}{
		"no link":                {userfiles.Place{Base: dir, Below: "real/in/file"}, nil},
		"a link in the base":     {userfiles.Place{Base: dir + "/link/in/file"}, nil},
		"none allowed there":     {userfiles.Place{Base: dir + "/link", Below: "in/file", NoLinks: true}, unix.ELOOP},
		"a folder below":         {userfiles.Place{Base: dir, Below: "link/in/file"}, unix.ELOOP},
		"a file below":           {userfiles.Place{Base: dir, Below: "real/file"}, unix.ELOOP},
		"a socket of the helper": {userfiles.Place{Base: "/proc/self/fd/3"}, unix.ELOOP},
		"root of a process":      {userfiles.Place{Base: "/proc/self/root/etc/passwd"}, unix.ELOOP},
	} {
		if err := open(t, f, c.place); !errors.Is(err, c.want) {
			t.Errorf("%s: the error is %v, want %v", name, err, c.want)
		}
	}
	for name, p := range map[string]userfiles.Place{
		"relative": {Base: "home"}, "up": {Base: dir, Below: "../x"}, "absolute": {Base: dir, Below: "/etc"}, "zero": {Base: dir, Below: "a\x00"},
	} {
		if err := open(t, f, p); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// TestSquashed: a home of FUSE that refuses root, as NFS with root_squash does, works by the helper, and the
// descriptor can be mounted by root.
func TestSquashed(t *testing.T) {
	h := helpers(t, userfiles.Options{})
	home := rig.Squashed(t, int(ada.UID), int(ada.GID))
	if _, err := os.ReadDir(home); !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("root can read the home: %v", err)
	}
	f := h.As(ada)
	must(t, f.MakeAll(t.Context(), userfiles.Place{Base: home, Below: "data/x"}, 0o700))
	file, info, err := f.Open(t.Context(), userfiles.Place{Base: home, Below: "data/x/words"}, unix.O_CREAT|unix.O_WRONLY, 0o600)
	must(t, err)
	if info.UID != ada.UID {
		t.Errorf("the file is of user %d", info.UID)
	}
	_, err = io.WriteString(file, "words")
	must(t, errors.Join(err, file.Close()))
	folder, info, err := f.Open(t.Context(), userfiles.Place{Base: home, Below: "data"}, unix.O_PATH, 0)
	must(t, err)
	if !info.Mode.IsDir() {
		t.Errorf("the mode is %v", info.Mode)
	}
	tree, err := unix.OpenTree(int(folder.Fd()), "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	must(t, err)
	at := filepath.Join(rig.Passable(t), "at")
	must(t, errors.Join(os.Mkdir(at, 0o755), unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH), unix.Close(tree), folder.Close()))
	defer func() { must(t, unix.Unmount(at, unix.MNT_DETACH)) }()
	info, err = f.Stat(t.Context(), userfiles.Place{Base: at, Below: "x/words"})
	if err != nil || info.Size != 5 {
		t.Errorf("by the mount: %v, error %v", info, err)
	}
	must(t, f.Remove(t.Context(), userfiles.Place{Base: home, Below: "data"}))
	if err := open(t, h.As(eve), userfiles.Place{Base: home}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("another user gets %v", err)
	}
	same := ada
	same.GID = eve.GID // the kernel compares groups, too
	if err := open(t, h.As(same), userfiles.Place{Base: home}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("another group gets %v", err)
	}
}

// short is a time limit that a call of a loaded machine keeps.
const short = 2 * time.Second

// TestHanging: a home whose file server gives no answer ends a call after its time limit. Other users, and
// later calls of the user, are served, and no process and no descriptor is left.
func TestHanging(t *testing.T) {
	h := helpers(t, userfiles.Options{Limit: short, TreeLimit: short, Idle: time.Hour})
	home, well := rig.Hanging(t, int(ada.UID), int(ada.GID)), folder(t, ada, 0o700)
	must(t, open(t, h.As(ada), userfiles.Place{Base: well}))
	must(t, open(t, h.As(eve), userfiles.Place{Base: "/"}))
	before := descriptors(t)
	calls := map[string]func(*userfiles.Files) error{
		"open": func(f *userfiles.Files) error { return open(t, f, userfiles.Place{Base: home + "/x"}) },
		"make": func(f *userfiles.Files) error {
			return f.MakeAll(t.Context(), userfiles.Place{Base: home, Below: "x"}, 0o700)
		},
		"remove": func(f *userfiles.Files) error {
			return f.Remove(t.Context(), userfiles.Place{Base: home, Below: "x/y"})
		},
	}
	failures := make(chan error, len(calls))
	for name, call := range calls {
		go func() { failures <- fmt.Errorf("%s: %w", name, call(h.As(ada))) }()
	}
	for range calls {
		if err := <-failures; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "hangs") {
			t.Error(err)
		}
	}
	must(t, open(t, h.As(ada), userfiles.Place{Base: well}))
	must(t, open(t, h.As(eve), userfiles.Place{Base: "/"}))
	eventually(t, "two helpers are left", func() bool { return len(processes(t)) == 2 })
	eventually(t, "no descriptor is left", func() bool { return descriptors(t) <= before })
}

// TestStopped: a user who stops or kills the helper gets an error, and the next call a new helper.
func TestStopped(t *testing.T) {
	h := helpers(t, userfiles.Options{Limit: short, Idle: time.Hour})
	for name, signal := range map[string]unix.Signal{"stopped": unix.SIGSTOP, "killed": unix.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			must(t, open(t, h.As(ada), userfiles.Place{Base: "/"}))
			own := processes(t)
			if len(own) != 1 {
				t.Fatalf("there are %d helpers", len(own))
			}
			must(t, unix.Kill(own[0], signal))
			eventually(t, "it is "+name, func() bool { return slices.Contains([]string{"T", "Z", ""}, state(own[0])) })
			if err := open(t, h.As(ada), userfiles.Place{Base: "/"}); signal == unix.SIGSTOP && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the error is %v", err)
			}
			eventually(t, "the next call works", func() bool { return open(t, h.As(ada), userfiles.Place{Base: "/"}) == nil })
			eventually(t, "the helper has ended", func() bool { return !slices.Contains(processes(t), own[0]) })
		})
	}
}

// TestIdle: one helper serves all calls of a user, and ends a short time after the last one.
func TestIdle(t *testing.T) {
	h := helpers(t, userfiles.Options{Idle: 50 * time.Millisecond})
	before := descriptors(t)
	failures := make(chan error, 100)
	for range cap(failures) {
		go func() {
			file, _, err := h.As(ada).Open(context.Background(), userfiles.Place{Base: "/"}, unix.O_PATH, 0)
			if err == nil {
				err = file.Close()
			}
			failures <- err
		}()
	}
	for range cap(failures) {
		must(t, <-failures)
	}
	if n := len(processes(t)); n > 1 {
		t.Errorf("%d helpers are there for one user", n)
	}
	eventually(t, "the helper has ended", func() bool { return len(processes(t)) == 0 })
	eventually(t, "no descriptor is left", func() bool { return descriptors(t) <= before })
	h.Close()
	if err := open(t, h.As(ada), userfiles.Place{Base: "/"}); err == nil {
		t.Error("a helper started after Close")
	}
}

// TestTroubledHomes: a home that is read-only, full or missing gives the kernel's error.
func TestTroubledHomes(t *testing.T) {
	h := helpers(t, userfiles.Options{})
	f := h.As(ada)
	for name, c := range map[string]struct {
		options string
		flags   uintptr
		want    error
	}{
		"read-only": {"size=1m", unix.MS_RDONLY, unix.EROFS},
		"full":      {"nr_inodes=2", 0, unix.ENOSPC},
	} {
		dir := folder(t, ada, 0o755)
		must(t, unix.Mount("tmpfs", dir, "tmpfs", c.flags, fmt.Sprintf("%s,uid=%d,mode=700", c.options, ada.UID)))
		defer func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
		if err := f.MakeAll(t.Context(), userfiles.Place{Base: dir, Below: "a/b/c"}, 0o700); !errors.Is(err, c.want) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	missing := userfiles.Place{Base: rig.Passable(t) + "/nothing", Below: "x"}
	if err := f.MakeAll(t.Context(), missing, 0o700); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: the error is %v", err)
	}
	must(t, f.Remove(t.Context(), missing))
}

// TestList: a folder of any size and names of any bytes are listed.
func TestList(t *testing.T) {
	h := helpers(t, userfiles.Options{})
	dir := folder(t, ada, 0o755)
	want := map[string]bool{"\xff\x01" + strings.Repeat("\x02", 253): true}
	for i := range 1000 {
		want[fmt.Sprintf("%0255d", i)] = true
	}
	for name := range want {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	got := map[string]bool{}
	must(t, h.As(ada).List(t.Context(), userfiles.Place{Base: dir}, func(e userfiles.Entry) error {
		got[e.Name] = e.Type.IsDir()
		return nil
	}))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestBecome: a user that the kernel has no number for, and a program that is no helper, are errors.
func TestBecome(t *testing.T) {
	h := helpers(t, userfiles.Options{})
	for _, u := range []userfiles.User{{UID: 1<<32 - 1}, {UID: 5, GID: 1<<32 - 1}, {UID: 5, Groups: make([]uint32, 70000)}} {
		if err := open(t, h.As(u), userfiles.Place{Base: "/"}); err == nil {
			t.Errorf("it became user %d with %d groups", u.UID, len(u.Groups))
		}
	}
	for _, program := range []string{"/bin/true", "/nothing"} {
		other := userfiles.New(userfiles.Options{Program: program, Limit: time.Minute})
		if err := open(t, other.As(ada), userfiles.Place{Base: "/"}); err == nil {
			t.Errorf("%s served a call", program)
		}
		other.Close()
	}
}
