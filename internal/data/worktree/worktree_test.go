package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/data/digest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dir string, o Options) *Worktree {
	t.Helper()
	w, err := Open(dir, o)
	must(t, err)
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func file(path, content string) *File {
	return &File{Path: path, Size: int64(len(content)), Content: digest.Of([]byte(content))}
}

// TestNamesThatAreOneThere: where a file system takes two names for one, the second does not
// replace the first. In a fresh folder the file system tells.
func TestNamesThatAreOneThere(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, Options{})
	_, err := w.Prepare("d/x")
	must(t, err)
	if _, err := w.Write(file("a", "first"), []byte("first")); err != nil {
		t.Fatal(err)
	}
	w.made = "" // the folder comes again, as one of another name would
	_, folder := w.Prepare("d/y")
	_, write := w.Write(file("a", "second"), []byte("second"))
	_, _, link := w.Link("a", "x")
	p, err := w.Begin(file("a", "third"))
	must(t, err)
	_, long := p.Commit()
	for name, err := range map[string]error{"folder": folder, "write": write, "link": link, "long": long} {
		if err == nil || !strings.Contains(err.Error(), "are one for this file system") || !strings.Contains(err.Error(), "rename one") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "a")); err != nil || string(text) != "first" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestNamesThatFold: in a folder with something in it names are compared.
func TestNamesThatFold(t *testing.T) {
	for name, c := range map[string]struct {
		paths []string
		clash bool
	}{
		"case":                   {[]string{"README", "readme"}, true},
		"folders":                {[]string{"D/x", "d/y"}, true},
		"a file and a folder":    {[]string{"D", "d/y"}, true},
		"far below":              {[]string{"a/B/c/d", "a/b/c/e"}, true},
		"composed characters":    {[]string{"e\u0301", "\u00e9"}, true},
		"the Kelvin sign":        {[]string{"k", "\u212a"}, true},
		"others":                 {[]string{"a/b", "a/c", "b", "b-", "c/a/b"}, false},
		"the same name in two":   {[]string{"a/x", "b/x", "x"}, false},
		"bytes that are no text": {[]string{"\xff", "\xff/x"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, folds := range []bool{false, true} {
				n := names{folds: folds}
				var err error
				for _, path := range c.paths {
					err = errors.Join(err, n.take(path))
				}
				if clash := err != nil; clash != (c.clash && folds) {
					t.Errorf("folds %v: %v", folds, err)
				}
			}
		})
	}
}

// TestProbe leaves nothing, and knows the file system of this test.
func TestProbe(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "there"), nil, 0o600))
	w := open(t, dir, Options{})
	_, err := os.Lstat(filepath.Join(dir, "THERE"))
	if w.names.folds != (err == nil) {
		t.Errorf("it is taken for one that ignores case: %v; looking for THERE: %v", w.names.folds, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left: %v %v", entries, err)
	}
}

// TestOutside: paths and links lead nowhere else, whoever calls.
func TestOutside(t *testing.T) {
	top := t.TempDir()
	outside, into := filepath.Join(top, "outside"), filepath.Join(top, "into")
	must(t, os.Mkdir(outside, 0o755))
	must(t, os.WriteFile(filepath.Join(outside, "f"), []byte("not ours"), 0o600))
	must(t, os.Mkdir(into, 0o755))
	must(t, os.Symlink(outside, filepath.Join(into, "d")))
	w := open(t, into, Options{RemoveFolders: true})
	for _, path := range []string{"d/f", "../outside/f", filepath.Join(outside, "f")} {
		if _, err := w.Write(file(path, "x"), []byte("x")); err == nil {
			t.Errorf("%s is written", path)
		}
		if _, err := w.Begin(file(path, "x")); err == nil {
			t.Errorf("%s is begun", path)
		}
		if _, _, err := w.Link(path, "x"); err == nil {
			t.Errorf("%s is linked", path)
		}
		if f := w.Candidate(file(path, "not ours")); f != nil {
			t.Errorf("%s is read", path)
		}
	}
	if err := w.Inside("d"); err == nil {
		t.Error("a link that leads out is not found")
	}
	if _, err := os.Lstat(filepath.Join(into, "d")); err == nil {
		t.Error("a link that leads out stays")
	}
	must(t, os.Symlink(outside, filepath.Join(into, "d")))
	if n, err := w.Sweep(t.Context(), func() (string, error) { return "", nil }); err != nil || n != 1 {
		t.Errorf("%d are removed, not the link alone: %v", n, err)
	}
	if text, err := os.ReadFile(filepath.Join(outside, "f")); err != nil || string(text) != "not ours" {
		t.Errorf("%q %v", text, err)
	}
}

func TestReserved(t *testing.T) {
	for path, want := range map[string]bool{
		".muster-partial-0": true, "a/.muster-partial-0": true, "a/.muster-partial-0/b": true,
		"a.muster-partial-0": false, ".muster-partial": false, "muster-partial-0": false,
	} {
		if Reserved(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}

// TestNoPlaceForAFile: where a folder with something in it has a file's name, nothing is written; and
// where the folder comes while the file is written, nothing is left of the file.
func TestNoPlaceForAFile(t *testing.T) {
	occupy := func(t *testing.T, dir string) { must(t, os.MkdirAll(filepath.Join(dir, "d/f/mine"), 0o700)) }
	for name, c := range map[string]struct {
		before bool
		write  func(t *testing.T, w *Worktree, meanwhile func()) error
	}{
		"small": {true, func(_ *testing.T, w *Worktree, _ func()) error {
			_, err := w.Write(file("d/f", "text"), []byte("text"))
			return err
		}},
		"long": {true, func(_ *testing.T, w *Worktree, _ func()) error {
			_, err := w.Begin(file("d/f", "text"))
			return err
		}},
		"long, meanwhile": {false, func(t *testing.T, w *Worktree, meanwhile func()) error {
			p, err := w.Begin(file("d/f", "text"))
			must(t, err)
			meanwhile()
			_, err = p.Commit()
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.MkdirAll(filepath.Join(dir, "d"), 0o700))
			if c.before {
				occupy(t, dir)
			}
			w := open(t, dir, Options{})
			err := c.write(t, w, func() { occupy(t, dir) })
			if err == nil || !strings.Contains(err.Error(), `"d/f" is to be a file or link, and is a folder`) {
				t.Errorf("%v", err)
			}
			if entries, err := os.ReadDir(filepath.Join(dir, "d")); err != nil || len(entries) != 1 {
				t.Errorf("left in the folder: %v, %v", entries, err)
			}
		})
	}
}
