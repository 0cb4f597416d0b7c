package enclosure

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/osfile/meddler"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestOpenBelow: openBelow follows links to the folder, and no link below it.
func TestOpenBelow(t *testing.T) {
	top := t.TempDir()
	volume, outside := filepath.Join(top, "volume"), filepath.Join(top, "outside")
	must(t, errors.Join(os.MkdirAll(filepath.Join(volume, "a/b"), 0o755), os.Mkdir(outside, 0o755), os.WriteFile(filepath.Join(volume, "a/file"), nil, 0o600)))
	for link, to := range map[string]string{"volume/out": outside, "volume/a/up": "..", "volume/in": "a", "link": "volume"} {
		must(t, os.Symlink(to, filepath.Join(top, link)))
	}
	for below, want := range map[string]string{
		"": volume, ".": volume, "a": volume + "/a", "a/b": volume + "/a/b", "a//file": volume + "/a/file",
		"out": "", "out/x": "", "in": "", "in/b": "", "a/up": "", "a/up/a": "", "..": "", "a/../..": "", "none": "", "a/file/x": "",
	} {
		for _, folder := range []string{volume, filepath.Join(top, "link")} {
			file, err := openBelow(folder, below)
			if want == "" {
				if err == nil {
					t.Errorf("%q was opened as %s", below, file.Name())
				}
				continue
			}
			if err != nil {
				t.Errorf("%q: %v", below, err)
				continue
			}
			if got, err := os.Readlink(byNumber(file)); err != nil || got != want {
				t.Errorf("%q is %s, %v; want %s", below, got, err, want)
			}
			must(t, file.Close())
		}
	}
}

// TestOpenBelowAMeddler: openBelow opens only files in the folder, while a program keeps replacing
// parts of the path.
func TestOpenBelowAMeddler(t *testing.T) {
	volume := t.TempDir()
	m := meddler.Start(t, volume, "sub")
	opened := 0
	for range 20_000 {
		file, err := openBelow(volume, "sub/secret")
		if err != nil {
			continue
		}
		text, err := os.ReadFile(byNumber(file))
		must(t, file.Close())
		if err == nil && meddler.Leaked(string(text)) {
			t.Fatalf("it is %.40q", text)
		}
		opened++
	}
	if opened == 0 {
		t.Error("nothing was ever opened")
	}
	m.Untouched(t)
}

// TestCreate makes the targets of mounts where a program has put links.
func TestCreate(t *testing.T) {
	top := t.TempDir()
	outside := filepath.Join(top, "outside")
	must(t, errors.Join(os.MkdirAll(filepath.Join(top, "volume/folder"), 0o755), os.Mkdir(outside, 0o755),
		os.WriteFile(filepath.Join(outside, "file"), []byte("kept"), 0o600), os.WriteFile(filepath.Join(top, "volume/file"), []byte("kept"), 0o600)))
	for link, to := range map[string]string{"volume/to-folder": outside, "volume/to-file": outside + "/file", "volume/to-none": outside + "/none"} {
		must(t, os.Symlink(to, filepath.Join(top, link)))
	}
	volume, err := openBelow(top, "volume")
	must(t, err)
	defer func() { _ = volume.Close() }()
	for name, fails := range map[string]bool{"new": false, "folder": false, "file": false, "to-folder": true, "to-file": true, "to-none": true} {
		for _, isDir := range []bool{true, false} {
			file, err := create(volume, name, isDir)
			if (err != nil) != fails || err != nil && !errors.Is(err, errReplaced) {
				t.Errorf("%s: %v", name, err)
			}
			if err == nil {
				must(t, file.Close())
			}
		}
	}
	for path, want := range map[string]string{outside + "/file": "kept", top + "/volume/file": "kept"} {
		if text, err := os.ReadFile(path); err != nil || string(text) != want {
			t.Errorf("%s is %q, %v", path, text, err)
		}
	}
	if _, err := os.Lstat(outside + "/none"); err == nil {
		t.Error("a file was made where a link leads to")
	}
}

// TestEnsure: ensure finds targets, and refuses a target of another kind.
func TestEnsure(t *testing.T) {
	root := t.TempDir()
	must(t, errors.Join(os.MkdirAll(filepath.Join(root, "data"), 0o755), os.WriteFile(filepath.Join(root, "data/file"), []byte("x"), 0o600), os.Symlink("data", filepath.Join(root, "link"))))
	tr := &tree{root: root, private: map[string]bool{}}
	must(t, tr.own(root))
	for _, c := range []struct {
		target, path, fails string
		isDir               bool
	}{
		{"/data", "/data", "", true},
		{"/link/file", "/data/file", "", false},
		{"/link/a/b", "/data/a/b", "", true},
		{"/data/new", "/data/new", "", false},
		{"/data/file", "", "the source is a folder and the target is a file", true},
		{"/data", "", "the source is a file and the target is a folder", false},
		{"/data/none/../x", "", "leads through a folder that does not exist", true},
	} {
		path, at, err := tr.ensure(c.target, c.isDir)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v, want %q", c.target, err, c.fails)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.target, err)
			continue
		}
		got, err := os.Readlink(byNumber(at))
		if err != nil || got != root+c.path || path != got {
			t.Errorf("%s is at %s, and %s is open, %v", c.target, path, got, err)
		}
		must(t, at.Close())
	}
	file, err := os.Open(filepath.Join(root, "data/file"))
	must(t, err)
	defer func() { _ = file.Close() }()
	if text, err := io.ReadAll(file); err != nil || string(text) != "x" {
		t.Errorf("the file that was there is %q, %v", text, err)
	}
}
