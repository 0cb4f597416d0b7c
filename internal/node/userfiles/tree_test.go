package userfiles_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/node/rig"
	"github.com/muster-dev/muster/internal/node/userfiles"
)

func sys(t testing.TB, info fs.FileInfo) *syscall.Stat_t {
	t.Helper()
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("no stat")
	}
	return stat
}

// TestHomes: a home is the user's alone, other users may pass the folder above it, and an entry of
// somebody else's in its place is an error.
func TestHomes(t *testing.T) {
	h := helpers(t, userfiles.Options{})
	dir := filepath.Join(rig.Passable(t), "users")
	homes := userfiles.NewHomes(dir, h)
	home, err := homes.Of(ada)
	must(t, err)
	for path, want := range map[string]struct {
		mode fs.FileMode
		uid  uint32
	}{dir: {0o711, 0}, filepath.Join(dir, "61234"): {0o700, ada.UID}} {
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode().Perm() != want.mode || sys(t, info).Uid != want.uid {
			t.Errorf("%s has the mode %v and the user %d", path, info.Mode(), sys(t, info).Uid)
		}
	}
	must(t, home.MakeAll(t.Context(), home.Place("pods", "a"), 0o700))
	if err := open(t, h.As(eve), home.Place("pods")); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("another user opened it: %v", err)
	}
	must(t, errors.Join(os.Mkdir(filepath.Join(dir, "61333"), 0o700), os.Chown(filepath.Join(dir, "61333"), 5, 5)))
	if _, err := homes.Of(eve); err == nil {
		t.Error("a folder of user 5 is the home of another one")
	}
	if users, err := homes.Users(); err != nil || len(users) != 2 {
		t.Errorf("the users are %v, error %v", users, err)
	}
	// A file system that the user mounts in the home is not entered: it may hang.
	at := filepath.Join(dir, "61234", "pods", "a")
	must(t, unix.Mount("tmpfs", at, "tmpfs", 0, ""))
	defer func() { must(t, unix.Unmount(at, 0)) }()
	if err := open(t, home.Files, home.Place("pods", "a", "x")); !errors.Is(err, unix.EXDEV) {
		t.Errorf("the mount was entered: %v", err)
	}
}

// TestCopy: a tree of root's becomes the user's own, once and whole.
func TestCopy(t *testing.T) {
	h := helpers(t, userfiles.Options{})
	home, err := userfiles.NewHomes(filepath.Join(rig.Passable(t), "users"), h).Of(ada)
	must(t, err)
	private := filepath.Join(rig.Passable(t), "private")
	source := private + "/tree"
	must(t, errors.Join(
		os.MkdirAll(source+"/deep/er", 0o755), os.WriteFile(source+"/deep/er/run", []byte("run"), 0o755),
		os.WriteFile(source+"/data", []byte("data"), 0o644), os.Symlink("deep/er", source+"/link"), os.Chmod(private, 0o700)))
	from, err := os.Open(source)
	must(t, err)
	defer func() { must(t, from.Close()) }()
	// What an interrupted copy left, and a link of the user's in the way.
	must(t, home.MakeAll(t.Context(), home.Place("code", "x.unfinished", "old"), 0o700))
	must(t, home.Copy(t.Context(), from, home.Place("code", "x")))
	must(t, home.Copy(t.Context(), from, home.Place("code", "x")))
	for path, mode := range map[string]fs.FileMode{"deep/er/run": 0o700, "data": 0o600} {
		info, err := home.Stat(t.Context(), home.Place("code", "x", path))
		if err != nil || info.Mode != mode || info.UID != ada.UID || info.Size == 0 {
			t.Errorf("%s is %+v, error %v", path, info, err)
		}
	}
	if _, err := home.Stat(t.Context(), home.Place("code", "x", "old")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an old file is there: %v", err)
	}
	must(t, home.Link(t.Context(), home.Place("escape"), rig.Passable(t)))
	if err := home.Copy(t.Context(), from, home.Place("escape", "x")); !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("the copy followed a link: %v", err)
	}
	if err := home.Copy(t.Context(), nil, home.Place("nothing")); err == nil {
		t.Error("nothing was copied")
	}
}

// TestPut: a payload is swapped as a whole, and belongs to the user.
func TestPut(t *testing.T) {
	h := helpers(t, userfiles.Options{})
	home, err := userfiles.NewHomes(filepath.Join(rig.Passable(t), "users"), h).Of(ada)
	must(t, err)
	for _, word := range []string{"old", "new"} {
		must(t, home.Put(t.Context(), home.Place("volumes", "secret"), userfiles.Payload{"key": {Data: []byte(word), Mode: 0o440}, "a/b": {Data: make([]byte, 1<<20), Mode: 0o644}}))
	}
	dir := filepath.Join(home.Place().Base, "volumes", "secret")
	text, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil || string(text) != "new" {
		t.Errorf("the file has %q, error %v", text, err)
	}
	info, err := os.Stat(filepath.Join(dir, "key"))
	must(t, err)
	if sys(t, info).Uid != ada.UID || info.Mode().Perm() != 0o440 {
		t.Errorf("the file is of user %d, mode %v", sys(t, info).Uid, info.Mode())
	}
}

// TestRemove: a tree goes whatever is in it, and nothing that a link in it leads to.
func TestRemove(t *testing.T) {
	h := helpers(t, userfiles.Options{})
	home, err := userfiles.NewHomes(filepath.Join(rig.Passable(t), "users"), h).Of(ada)
	must(t, err)
	kept := folder(t, ada, 0o700)
	must(t, os.WriteFile(filepath.Join(kept, "file"), nil, 0o666))
	f := home.Files
	must(t, errors.Join(
		f.MakeAll(t.Context(), home.Place("pod", "a", "locked"), 0o700), f.MakeAll(t.Context(), home.Place("pod", "a", "locked", "x"), 0),
		f.Link(t.Context(), home.Place("pod", "away"), kept), os.Chmod(filepath.Join(home.Place().Base, "pod/a/locked"), 0)))
	must(t, f.Remove(t.Context(), home.Place("pod")))
	if _, err := f.Stat(t.Context(), home.Place("pod")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(kept, "file")); err != nil {
		t.Error(err)
	}
	if err := f.Remove(t.Context(), home.Place()); err == nil {
		t.Error("the home itself was removed")
	}
}

// TestSub: links in a volume are resolved as the user, and one that leads out is an error.
func TestSub(t *testing.T) {
	h := helpers(t, userfiles.Options{})
	dir := folder(t, ada, 0o700)
	f := h.As(ada)
	must(t, errors.Join(f.MakeAll(t.Context(), userfiles.Place{Base: dir, Below: "real"}, 0o700),
		f.Link(t.Context(), userfiles.Place{Base: dir, Below: "in"}, "real"), f.Link(t.Context(), userfiles.Place{Base: dir, Below: "out"}, "/etc")))
	got, err := f.Sub(t.Context(), userfiles.Place{Base: dir, Below: "in/new"}, false)
	if err != nil || got != (userfiles.Place{Base: dir, Below: "real/new"}) {
		t.Errorf("it is %v, error %v", got, err)
	}
	if _, err := f.Sub(t.Context(), userfiles.Place{Base: dir, Below: "in/other"}, true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder was made, or the error is %v", err)
	}
	for _, below := range []string{"out", "out/new"} {
		if _, err := f.Sub(t.Context(), userfiles.Place{Base: dir, Below: below}, false); err == nil {
			t.Errorf("%s was not refused", below)
		}
	}
}

// TestMemory: a file system in memory is the user's own, and mounted once.
func TestMemory(t *testing.T) {
	h := helpers(t, userfiles.Options{})
	dir := filepath.Join(rig.Passable(t), "memory", "x")
	must(t, errors.Join(userfiles.Memory(dir, ada, 1<<20), userfiles.Memory(dir, ada, 1<<20)))
	defer func() { must(t, unix.Unmount(dir, 0)) }()
	must(t, h.As(ada).MakeAll(t.Context(), userfiles.Place{Base: dir, Below: "y"}, 0o700))
	if err := open(t, h.As(eve), userfiles.Place{Base: dir, Below: "y"}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("another user gets %v", err)
	}
}

// TestRead: the end of a regular file is read, of a bounded length, and nothing else.
func TestRead(t *testing.T) {
	h := helpers(t, userfiles.Options{})
	dir := folder(t, ada, 0o755)
	must(t, errors.Join(os.WriteFile(dir+"/long", append(make([]byte, 1<<20), "end"...), 0o644), os.WriteFile(dir+"/empty", nil, 0o644),
		os.Symlink("long", dir+"/link"), unix.Mkfifo(dir+"/pipe", 0o644), os.WriteFile(dir+"/root", []byte("secret"), 0o600)))
	for name, want := range map[string]string{"long": "\x00end", "empty": ""} {
		data, info, err := h.As(ada).Read(t.Context(), userfiles.Place{Base: dir, Below: name}, 4)
		if err != nil || string(data) != want || !info.Mode.IsRegular() {
			t.Errorf("%s: %q, error %v", name, data, err)
		}
	}
	if data, _, err := h.As(ada).Read(t.Context(), userfiles.Place{Base: dir, Below: "long"}, 1<<20); err != nil || len(data) != 64<<10 {
		t.Errorf("it read %d bytes, error %v", len(data), err)
	}
	for _, name := range []string{"link", "pipe", "root", "."} {
		if data, _, err := h.As(ada).Read(t.Context(), userfiles.Place{Base: dir, Below: name}, 4); err == nil {
			t.Errorf("%s: it read %q", name, data)
		}
	}
}
