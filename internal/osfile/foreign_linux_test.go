package osfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/osfile/meddler"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func root(t *testing.T, dir string) *os.Root {
	t.Helper()
	r, err := os.OpenRoot(dir)
	must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// strange are things that a program may put in the place of a file or a folder.
var strange = map[string]func(path, victim string) error{
	"a link to a file":   func(path, victim string) error { return os.Symlink(victim, path) },
	"a link beside it":   func(path, _ string) error { return os.Symlink("beside", path) },
	"a link to a folder": func(path, victim string) error { return os.Symlink(filepath.Dir(victim), path) },
	"a link to nothing":  func(path, _ string) error { return os.Symlink("nothing", path) },
	"a link to itself":   func(path, _ string) error { return os.Symlink(filepath.Base(path), path) },
	"a pipe":             func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
	"a socket":           func(path, _ string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) },
	"a link to a pipe": func(path, _ string) error {
		return errors.Join(unix.Mkfifo(path+"-", 0o600), os.Symlink(filepath.Base(path)+"-", path))
	},
	"a link to /dev/zero": func(path, _ string) error { return os.Symlink("/dev/zero", path) },
}

// TestStrange: osfile opens no such thing, waits for none and writes through none.
func TestStrange(t *testing.T) {
	for name, plant := range strange {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			victim, in := filepath.Join(top, "victim"), filepath.Join(top, "in")
			must(t, os.WriteFile(victim, []byte("victim"), 0o600))
			must(t, os.Mkdir(in, 0o755))
			must(t, os.WriteFile(filepath.Join(in, "beside"), []byte("beside"), 0o600))
			must(t, plant(filepath.Join(in, "x"), victim))
			r := root(t, in)
			var kind *KindError
			if f, err := OpenRegular(r, "x"); !errors.As(err, &kind) {
				t.Errorf("a file %v, %v", f, err)
			}
			if f, err := OpenOwn(r, "x"); !errors.As(err, &kind) {
				t.Errorf("a file to write to %v, %v", f, err)
			}
			if f, err := OpenFolder(r, "x"); !errors.As(err, &kind) {
				t.Errorf("a folder %v, %v", f, err)
			}
			must(t, ReplaceRegular(r, "x", []byte("new"), 0o600))
			if text, err := ReadRegular(r, "x", 3); err != nil || string(text) != "new" {
				t.Errorf("%q, %v", text, err)
			}
			for path, want := range map[string]string{victim: "victim", filepath.Join(in, "beside"): "beside"} {
				if text, err := os.ReadFile(path); err != nil || string(text) != want {
					t.Errorf("%s is %q, %v", path, text, err)
				}
			}
			must(t, plant(filepath.Join(in, "log"), victim))
			log, err := AppendRegular(r, "log", 0o600)
			must(t, err)
			_, err = log.WriteString("said")
			must(t, errors.Join(err, log.Close()))
			if text, err := ReadRegular(r, "log", 4); err != nil || string(text) != "said" {
				t.Errorf("%q, %v", text, err)
			}
			// A folder that another process made cannot be in the way of the temporary file.
			must(t, os.MkdirAll(filepath.Join(in, "y.new", "full"), 0o755))
			must(t, ReplaceRegular(r, "y", []byte("new"), 0o600))
			if text, err := os.ReadFile(victim); err != nil || string(text) != "victim" {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}

// TestDevice is the same with a device, which root alone can make.
func TestDevice(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mknod(filepath.Join(dir, "x"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))); err != nil {
		t.Skipf("no device can be made here: %v", err)
	}
	var kind *KindError
	if _, err := ReadRegular(root(t, dir), "x", 1); !errors.As(err, &kind) || kind.Is != "a device" {
		t.Error(err)
	}
}

// TestHardLink: a file that has another name is replaced, not written to.
func TestHardLink(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	must(t, os.WriteFile(victim, []byte("victim"), 0o600))
	must(t, os.Link(victim, filepath.Join(dir, "x")))
	if f, err := OpenOwn(root(t, dir), "x"); err == nil || !strings.Contains(err.Error(), "another name") {
		t.Errorf("%v, %v", f, err)
	}
	log, err := AppendRegular(root(t, dir), "x", 0o600)
	must(t, err)
	_, err = log.WriteString("said")
	must(t, errors.Join(err, log.Close()))
	must(t, os.Remove(filepath.Join(dir, "x")))
	must(t, os.Link(victim, filepath.Join(dir, "x")))
	must(t, ReplaceRegular(root(t, dir), "x", []byte("new"), 0o600))
	if text, err := os.ReadFile(victim); err != nil || string(text) != "victim" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestMost(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "x"), []byte("1234"), 0o600))
	r := root(t, dir)
	if _, err := ReadRegular(r, "x", 3); err == nil || !strings.Contains(err.Error(), "more than 3 bytes") {
		t.Error(err)
	}
	if text, err := ReadRegular(r, "x", 4); err != nil || string(text) != "1234" {
		t.Errorf("%q, %v", text, err)
	}
	must(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	if _, err := ReadRegular(r, "d", 4); err == nil {
		t.Error("a folder is read")
	}
	if _, err := OpenFolder(r, "x"); err == nil {
		t.Error("a file is a folder")
	}
}

// TestWalk goes through everything in order, and follows no link.
func TestWalk(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "b", "c"), 0o755))
	for _, name := range []string{"a", "b/c/d", "b-"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	must(t, os.Symlink("..", filepath.Join(dir, "b", "up")))
	var got []string
	must(t, Walk(root(t, dir), func(path string, in *os.Root, e fs.DirEntry) error {
		if e.Type().IsRegular() {
			if text, err := ReadRegular(in, e.Name(), 10); err != nil || string(text) != path {
				t.Errorf("%s is %q, %v", path, text, err)
			}
		}
		got = append(got, path)
		return nil
	}))
	if want := []string{"a", "b", "b/c", "b/c/d", "b/up", "b-"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	deep := strings.Repeat("d/", deepest+2)
	must(t, root(t, dir).MkdirAll(deep[:len(deep)-1], 0o755))
	if err := Walk(root(t, dir), func(string, *os.Root, fs.DirEntry) error { return nil }); err == nil || !strings.Contains(err.Error(), "at most 2048") {
		t.Error(err)
	}
}

// TestMeddled: a meddler changes a name meanwhile. osfile reads nothing outside and waits for
// nothing. A read content is one that a file had.
func TestMeddled(t *testing.T) {
	in := t.TempDir()
	m := meddler.Start(t, in, "x")
	r := root(t, in)
	files, folders := 0, 0
	for n := 0; (files < 20 || folders < 20) && n < 1_000_000; n++ {
		if text, err := ReadRegular(r, "x", 1<<20); err == nil {
			if files++; meddler.Leaked(string(text)) {
				t.Fatalf("%.100q was read", text)
			}
		}
		folder, err := OpenFolder(r, "x")
		if err != nil {
			continue
		}
		folders++
		if text, err := ReadRegular(folder, meddler.Secret, 100); err == nil && meddler.Leaked(string(text)) {
			t.Fatalf("%q was read", text)
		}
		_ = folder.Close()
	}
	m.Untouched(t)
	if files < 20 || folders < 20 {
		t.Errorf("%d files and %d folders were opened: too few to show anything", files, folders)
	}
}

func TestEscapes(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Symlink("..", filepath.Join(dir, "up")))
	must(t, os.Symlink("none", filepath.Join(dir, "to none")))
	for name, want := range map[string]bool{"up": true, "to none": false, "none": false, ".": false, "../x": true} {
		if _, err := root(t, dir).Stat(name); Escapes(err) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
