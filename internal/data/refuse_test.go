package data

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestWhatCannotBePut(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, dir string)
		want string
	}{
		"a link out":      {func(t *testing.T, dir string) { files(t, dir, map[string]string{"x/l -> ../../etc": ""}) }, "x/l"},
		"a link to /":     {func(t *testing.T, dir string) { files(t, dir, map[string]string{"l -> /etc/passwd": ""}) }, "/etc/passwd"},
		"a pipe":          {func(t *testing.T, dir string) { must(t, syscall.Mkfifo(filepath.Join(dir, "p"), 0o600)) }, "a pipe"},
		"a socket":        {func(t *testing.T, dir string) { listen(t, filepath.Join(dir, "s")) }, "a socket"},
		"a file too long": {func(t *testing.T, dir string) { deep(t, dir) }, "at most 4095"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			src := t.TempDir()
			files(t, src, map[string]string{"a": "1"})
			c.make(t, src)
			_, err := p.Put(t.Context(), "main", Folder(src), PutOptions{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
			if _, err := p.At(t.Context(), "main"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("something was committed: %v", err)
			}
		})
	}
	p := newPlace(t)
	src := t.TempDir()
	if err := unix.Mknod(filepath.Join(src, "d"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); !errors.Is(err, unix.EPERM) { // who may make devices
		must(t, err)
		if _, err := p.Put(t.Context(), "main", Folder(src), PutOptions{}); err == nil || !strings.Contains(err.Error(), "d is a device") {
			t.Errorf("a device: %v", err)
		}
	}
	for name, h := range map[string]tar.Header{
		"up": {Name: "../x", Typeflag: tar.TypeReg}, "root": {Name: "/etc/x", Typeflag: tar.TypeReg}, "hard": {Name: "x", Linkname: "y", Typeflag: tar.TypeLink},
		"device": {Name: "x", Typeflag: tar.TypeChar}, "link": {Name: "a/x", Linkname: "../../y", Typeflag: tar.TypeSymlink}, "part": {Name: strings.Repeat("x", 256), Typeflag: tar.TypeReg},
	} {
		var buf bytes.Buffer
		w := tar.NewWriter(&buf)
		must(t, errors.Join(w.WriteHeader(&h), w.Close()))
		if _, err := p.Put(t.Context(), "main", Tar(&buf), PutOptions{}); err == nil {
			t.Errorf("%s in a tar: taken", name)
		}
	}
	for _, path := range []string{"", "../x", "/x", "a\x00b", "a//b", strings.Repeat("x", 256)} {
		if _, err := p.Put(t.Context(), "main", Stream(path, strings.NewReader("x")), PutOptions{}); err == nil {
			t.Errorf("%q: taken", path)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func listen(t *testing.T, path string) {
	t.Helper()
	short := filepath.Join(t.TempDir(), "s")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", short)
	must(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	must(t, l.Close())
	must(t, os.Rename(short, path))
}

// deep makes a path that is longer than any system call takes.
func deep(t *testing.T, dir string) {
	t.Helper()
	at, err := os.OpenRoot(dir)
	must(t, err)
	part := strings.Repeat("x", 250)
	for range 17 {
		must(t, at.Mkdir(part, 0o755))
		next, err := at.OpenRoot(part)
		must(t, errors.Join(err, at.Close()))
		at = next
	}
	must(t, errors.Join(at.WriteFile("f", nil, 0o600), at.Close()))
}

func TestFilesAndFoldersAtOnce(t *testing.T) {
	p := newPlace(t)
	put(t, p.Dataset, "main", Stream("a/b", strings.NewReader("x")), AddOptions{})
	for _, path := range []string{"a", "a/b/c"} {
		if _, err := p.Put(t.Context(), "main", Stream(path, strings.NewReader("y")), PutOptions{}); err == nil || !strings.Contains(err.Error(), "a folder") {
			t.Errorf("%s: %v", path, err)
		}
	}
	both := tarOf(t, map[string]string{"x": "1"})
	both = append(both[:1024], tarOf(t, map[string]string{"x/y": "2"})...)
	if _, err := p.Put(t.Context(), "new", Tar(bytes.NewReader(both)), PutOptions{}); err == nil {
		t.Error("a tar with a file that is a folder was taken")
	}
	put(t, p.Dataset, "main", Tar(bytes.NewReader(tarOf(t, map[string]string{"a": "y"}))), AddOptions{Replace: true})
	same(t, "in place", map[string]string{"a": "y"}, held(t, p.Dataset, "main"))
}

// TestAFileThatChangesWhileItIsRead is read again; one that always does is refused.
func TestAFileThatChangesWhileItIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		size, times int
		refused     bool
	}{
		"small, once": {1000, 1, false}, "small, for ever": {1000, 1000, true},
		"long, twice": {3 << 20, 2, false}, "long, for ever": {3 << 20, 1000, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			src := t.TempDir()
			files(t, src, map[string]string{"f": noise(0, c.size), "g": "beside it"})
			changes := 0
			p.store.opened = func(in *os.Root, name string) (*os.File, stamp, error) {
				file, st, err := openFile(in, name)
				if path := filepath.Join(src, name); name == "f" && changes < c.times {
					changes++
					must(t, os.WriteFile(path, []byte(noise(uint64(changes), c.size)), 0o600)) // while it is open
				}
				return file, st, err
			}
			_, err := p.Put(t.Context(), "main", Folder(src), PutOptions{})
			if c.refused {
				if err == nil || !strings.Contains(err.Error(), "changes while it is read") || !strings.Contains(err.Error(), filepath.Join(src, "f")) {
					t.Errorf("%v", err)
				}
				return
			}
			must(t, err)
			same(t, "the last one", map[string]string{"f": noise(uint64(c.times), c.size), "g": "beside it"}, held(t, p.Dataset, "main"))
		})
	}
}
