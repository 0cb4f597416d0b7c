package bundle

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// built is a folder as a build leaves it.
func built(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "bin"), 0o700))
	must(t, os.MkdirAll(filepath.Join(dir, "lib", "python3.13", "site-packages"), 0o700))
	must(t, os.Symlink("/usr/local/bin/python3", filepath.Join(dir, "bin", "python")))
	must(t, os.WriteFile(filepath.Join(dir, "bin", "tool"), []byte("#!/muster/env/bin/python\n"), 0o700))
	module := filepath.Join(dir, "lib", "python3.13", "site-packages", "module.py")
	must(t, os.WriteFile(module, []byte("WORD = 1\n"), 0o600))
	old := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	must(t, os.Chtimes(module, old, old))
	must(t, os.WriteFile(filepath.Join(dir, NoteFile), []byte(`{"python": "3.13.1", "searchPath": "/opt/bin:/usr/bin"}`), 0o600))
	return dir
}

func TestThereAndBack(t *testing.T) {
	path, dst := filepath.Join(t.TempDir(), "tar"), filepath.Join(t.TempDir(), "env")
	packed, err := Pack(t.Context(), built(t), path)
	must(t, err)
	if packed.Python != "3.13.1" || packed.SearchPath != "/opt/bin:/usr/bin" || len(packed.Hash) != 64 {
		t.Errorf("it is known as %+v", packed)
	}
	raw, err := os.ReadFile(path)
	must(t, err)
	if int64(len(raw)) != packed.Size {
		t.Errorf("it has %d bytes and is said to have %d", len(raw), packed.Size)
	}
	must(t, Unpack(t.Context(), bytes.NewReader(raw), dst))
	if link, err := os.Readlink(filepath.Join(dst, "bin", "python")); err != nil || link != "/usr/local/bin/python3" {
		t.Errorf("the interpreter leads to %q, %v", link, err)
	}
	for name, mode := range map[string]fs.FileMode{"bin": 0o755 | fs.ModeDir, "bin/tool": 0o755, "lib/python3.13/site-packages/module.py": 0o644} {
		info, err := os.Stat(filepath.Join(dst, name))
		must(t, err)
		if info.Mode() != mode {
			t.Errorf("%s has the mode %s, want %s", name, info.Mode(), mode)
		}
	}
	info, err := os.Stat(filepath.Join(dst, "lib/python3.13/site-packages/module.py"))
	must(t, err)
	if want := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC); !info.ModTime().Equal(want) {
		t.Errorf("the module is of %s, want %s: what was compiled of it would be stale", info.ModTime(), want)
	}
	// What is cut off is nothing.
	cut := filepath.Join(t.TempDir(), "env")
	if err := Unpack(t.Context(), bytes.NewReader(raw[:len(raw)/2+100]), cut); err == nil {
		t.Error("half of it was taken for all")
	}
	if left, _ := os.ReadDir(filepath.Dir(cut)); len(left) != 0 {
		t.Errorf("%d things are left of what was cut off", len(left))
	}
}

func TestUnfinishedBuilds(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir, note string){
		"no note": func(t *testing.T, _, note string) { must(t, os.Remove(note)) },
		"a link for a note": func(t *testing.T, _, note string) {
			must(t, os.Remove(note))
			must(t, os.Symlink("/etc/hostname", note))
		},
		"no version": func(t *testing.T, _, note string) {
			must(t, os.WriteFile(note, []byte(`{"searchPath": "/bin"}`), 0o600))
		},
		"a package in words": func(t *testing.T, _, note string) {
			must(t, os.WriteFile(note, []byte(`{"python": "3.13", "searchPath": "/bin", "packages": ["numpy-1", "come here"]}`), 0o600))
		},
		"a path within": func(t *testing.T, _, note string) {
			must(t, os.WriteFile(note, []byte(`{"python": "3.13", "searchPath": "bin"}`), 0o600))
		},
		"a file of holes": func(t *testing.T, dir, _ string) {
			path := filepath.Join(dir, "holes")
			must(t, os.WriteFile(path, nil, 0o600))
			must(t, os.Truncate(path, MaxBytes+1))
		},
		"a socket": func(t *testing.T, dir, _ string) {
			t.Chdir(dir) // the names of sockets are short
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", "socket")
			must(t, err)
			t.Cleanup(func() { _ = l.Close() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := built(t)
			spoil(t, dir, filepath.Join(dir, NoteFile))
			_, err := Pack(t.Context(), dir, filepath.Join(t.TempDir(), "tar"))
			if err == nil {
				t.Error("it was packed")
			}
			if name == "no note" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

// Nothing that an archive says leads out of the folder.
func TestWhatIsNotUnpacked(t *testing.T) {
	outside := t.TempDir()
	for name, entries := range map[string][]tar.Header{
		"a path that leads out":    {{Name: "../x", Typeflag: tar.TypeReg}},
		"a whole path":             {{Name: "/x", Typeflag: tar.TypeReg}},
		"through a link":           {{Name: "d/", Typeflag: tar.TypeDir}, {Name: "d/l", Typeflag: tar.TypeSymlink, Linkname: outside}, {Name: "d/l/x", Typeflag: tar.TypeReg}},
		"a hard link":              {{Name: "x", Typeflag: tar.TypeLink, Linkname: "/etc/shadow"}},
		"a device":                 {{Name: "x", Typeflag: tar.TypeChar}},
		"the same file twice":      {{Name: "x", Typeflag: tar.TypeReg}, {Name: "x", Typeflag: tar.TypeReg}},
		"nothing":                  {},
		"a file in place of a dir": {{Name: "x", Typeflag: tar.TypeReg}, {Name: "x/y", Typeflag: tar.TypeReg}},
	} {
		t.Run(name, func(t *testing.T) {
			var raw bytes.Buffer
			w := tar.NewWriter(&raw)
			for i := range entries {
				must(t, w.WriteHeader(&entries[i]))
			}
			must(t, w.Close())
			dst := filepath.Join(t.TempDir(), "env")
			if err := Unpack(t.Context(), &raw, dst); err == nil {
				t.Error("it was unpacked")
			}
			if left, _ := os.ReadDir(outside); len(left) != 0 {
				t.Fatalf("%s was written outside", left[0].Name())
			}
		})
	}
}

func TestReadPacked(t *testing.T) {
	hash := strings.Repeat("a1", 32)
	for text, ok := range map[string]bool{
		`{"python": "3.13.1", "searchPath": "/bin", "hash": "` + hash + `", "size": 10}`: true,
		`{"python": "3.13.1", "searchPath": "/bin", "hash": "../x", "size": 10}`:         false,
		`{"python": "3.13.1", "searchPath": "/bin", "hash": "` + hash + `", "size": 0}`:  false,
		`{"python": "$(x)", "searchPath": "/bin", "hash": "` + hash + `", "size": 1}`:    false,
		`[]`: false,
	} {
		if _, err := ReadPacked([]byte(text)); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}
