//go:build linux

package environment

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/environment/bundle"
)

// aNote is what a build says at its end.
const aNote = `{"python": "3.13.1", "platform": "linux-x86_64", "searchPath": "/usr/bin", "packages": ["slowly-1"]}`

func newBuilder(t *testing.T) *Builder {
	t.Helper()
	b, err := New(Options{Dir: filepath.Join(t.TempDir(), "environments")})
	must(t, err)
	return b
}

// benched has somebody begin an environment, and returns its folder.
func benched(t *testing.T, b *Builder, who string) string {
	t.Helper()
	path, err := b.Bench(keyOf(1), who)
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(path, "lib"), 0o755))
	must(t, os.WriteFile(filepath.Join(path, "lib", "slowly.py"), []byte("WORD = 1\n"), 0o644))
	return path
}

// said has what is on a bench be whole.
func said(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(path, bundle.NoteFile), []byte(text), 0o644))
}

// holds says what is in the folder of the environment.
func holds(b *Builder, name string) bool {
	_, err := os.Lstat(filepath.Join(b.home(keyOf(1)), venvDir, name))
	return err == nil
}

// TestBench: who builds finds the folder as it was left, another one finds it empty, and
// nobody gets what is complete.
func TestBench(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(*testing.T, *Builder)
		who    string
		kept   bool   // what was on it
		says   string // the error; empty: the folder is given
	}{
		{"nobody was there", func(*testing.T, *Builder) {}, "ann", false, ""},
		{"the same one again", func(t *testing.T, b *Builder) { benched(t, b, "ann") }, "ann", true, ""},
		{"somebody else, who did not end", func(t *testing.T, b *Builder) { benched(t, b, "bob") }, "ann", false, ""},
		{"whose name begins alike", func(t *testing.T, b *Builder) { benched(t, b, "anna") }, "ann", false, ""},
		{"the same one, before the machine was started", func(t *testing.T, b *Builder) {
			benched(t, b, "ann")
			must(t, os.WriteFile(filepath.Join(b.home(keyOf(1)), benchFile), []byte("ann\nanother boot\n"), 0o600))
		}, "ann", false, ""},
		{"killed before it was noted who it is", func(t *testing.T, b *Builder) {
			benched(t, b, "ann")
			must(t, os.Remove(filepath.Join(b.home(keyOf(1)), benchFile)))
		}, "ann", false, ""},
		{"a note that nobody has looked at", func(t *testing.T, b *Builder) { said(t, benched(t, b, "bob"), aNote) }, "ann", false, ""},
		{"the same one, whose is complete", func(t *testing.T, b *Builder) { complete(t, b, "ann") }, "ann", true, ""},
		{"it is complete", func(t *testing.T, b *Builder) { complete(t, b, "bob") }, "ann", true, "is complete"},
		{"somebody is at work on it", func(t *testing.T, b *Builder) {
			benched(t, b, "bob")
			hold(t, b.home(keyOf(1)), unix.LOCK_SH)
		}, "ann", true, errBusy.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder(t)
			c.before(t, b)
			path, err := b.Bench(keyOf(1), c.who)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("it says %v, want %q", err, c.says)
				}
			} else if err != nil || path != filepath.Join(b.home(keyOf(1)), venvDir) {
				t.Fatalf("%s, %v", path, err)
			}
			if got := holds(b, "lib"); got != c.kept {
				t.Errorf("what was on it is kept: %v, want %v", got, c.kept)
			}
		})
	}
}

// complete has an environment be built by somebody, and found.
func complete(t *testing.T, b *Builder, who string) string {
	t.Helper()
	path := benched(t, b, who)
	said(t, path, aNote)
	if _, err := b.Built(keyOf(1)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRightsOfABench: whoever runs in the image may write to it, nobody comes there but
// by a mount, and what is complete is for reading.
func TestRightsOfABench(t *testing.T) {
	b := newBuilder(t)
	path := benched(t, b, "ann")
	mode := func(of string) os.FileMode {
		info, err := os.Stat(of)
		must(t, err)
		return info.Mode().Perm()
	}
	if bench, home := mode(path), mode(b.home(keyOf(1))); bench != 0o777 || home != 0o700 {
		t.Errorf("the folder has %o, its home %o", bench, home)
	}
	said(t, path, aNote)
	if _, err := b.Built(keyOf(1)); err != nil || mode(path) != 0o755 {
		t.Errorf("complete, it has %o: %v", mode(path), err)
	}
}

func TestKeysOfBenches(t *testing.T) {
	b := newBuilder(t)
	for _, key := range []string{"", "..", "../../etc", strings.Repeat("A", 64), keyOf(1)[:63], keyOf(1) + "/.."} {
		if path, err := b.Bench(key, "ann"); err == nil {
			t.Errorf("Bench takes %q: %s", key, path)
		}
		if _, err := b.Built(key); err == nil || errors.Is(err, ErrNotBuilt) {
			t.Errorf("Built takes %q: %v", key, err)
		}
	}
	entries, err := os.ReadDir(b.opts.Dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("there is %v, %v", entries, err)
	}
}

// TestBuilt: what has its note is complete from the first look on, and nothing else is.
func TestBuilt(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(*testing.T, *Builder)
		err    error // nil: it is built
	}{
		{"whole", func(t *testing.T, b *Builder) { said(t, benched(t, b, "ann"), aNote) }, nil},
		{"complete", func(t *testing.T, b *Builder) { complete(t, b, "ann") }, nil},
		{"never begun", func(*testing.T, *Builder) {}, ErrNotBuilt},
		{"half-built", func(t *testing.T, b *Builder) { benched(t, b, "ann") }, ErrNotBuilt},
		{"begun anew by another one", func(t *testing.T, b *Builder) {
			said(t, benched(t, b, "ann"), aNote)
			benched(t, b, "bob")
		}, ErrNotBuilt},
		{"not on disk when the power went", func(t *testing.T, b *Builder) {
			said(t, benched(t, b, "ann"), aNote)
			must(t, os.WriteFile(filepath.Join(b.home(keyOf(1)), benchFile), []byte("ann\nanother boot\n"), 0o600))
		}, ErrNotBuilt},
		{"complete before the machine was started", func(t *testing.T, b *Builder) {
			complete(t, b, "ann")
			must(t, os.WriteFile(filepath.Join(b.home(keyOf(1)), benchFile), []byte("ann\nanother boot\n"), 0o600))
		}, nil},
		{"complete, and moved with its home", func(t *testing.T, b *Builder) {
			complete(t, b, "ann")
			move(t, b)
		}, nil},
		{"begun anew where another was moved to, and not on disk when the power went", func(t *testing.T, b *Builder) {
			complete(t, b, "ann")
			move(t, b)
			said(t, benched(t, b, "bob"), aNote)
			must(t, os.WriteFile(filepath.Join(b.home(keyOf(1)), benchFile), []byte("bob\nanother boot\n"), 0o600))
		}, ErrNotBuilt},
		{"collected", func(t *testing.T, b *Builder) {
			complete(t, b, "ann")
			must(t, os.Rename(b.home(keyOf(1)), filepath.Join(b.opts.Dir, keyOf(2))))
		}, ErrNotBuilt},
		{"its files removed by hand", func(t *testing.T, b *Builder) { must(t, os.RemoveAll(complete(t, b, "ann"))) }, ErrNotBuilt},
		{"what it says is nothing", func(t *testing.T, b *Builder) { said(t, benched(t, b, "ann"), "{}") }, bundle.ErrUnwanted},
		{"a link for a note", func(t *testing.T, b *Builder) {
			must(t, os.Symlink("/etc/passwd", filepath.Join(benched(t, b, "ann"), bundle.NoteFile)))
		}, bundle.ErrUnwanted},
		{"it cannot be read", func(t *testing.T, b *Builder) {
			path := benched(t, b, "ann")
			must(t, os.RemoveAll(path))
			must(t, os.Symlink(path, path))
		}, unix.ELOOP},
		{"being removed just now", func(t *testing.T, b *Builder) {
			said(t, benched(t, b, "ann"), aNote)
			hold(t, b.home(keyOf(1)), unix.LOCK_EX)
		}, errBusy},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder(t)
			c.before(t, b)
			got, err := b.Built(keyOf(1))
			_, ready := b.Path(keyOf(1))
			if c.err != nil {
				if !errors.Is(err, c.err) || ready == nil || errors.Is(err, bundle.ErrUnwanted) != errors.Is(c.err, bundle.ErrUnwanted) {
					t.Errorf("%v, want %v; members find it: %v", err, c.err, ready == nil)
				}
				return
			}
			if err != nil || got.Python != "3.13.1" || len(got.Packages) != 1 || ready != nil {
				t.Errorf("%+v, %v; members: %v", got, err, ready)
			}
		})
	}
}

// move moves all environments to another folder.
func move(t *testing.T, b *Builder) {
	t.Helper()
	moved := filepath.Join(t.TempDir(), "moved")
	must(t, os.Rename(b.opts.Dir, moved))
	b.opts.Dir = moved
}

// TestBuiltIsReserved: who is told that it is there finds it for a while, and a bench on
// which nobody works any more is collected.
func TestBuiltIsReserved(t *testing.T) {
	b := newBuilder(t)
	complete(t, b, "ann")
	old := time.Now().Add(-15 * day)
	for _, name := range []string{markerFile, reserveFile} {
		note(b.home(keyOf(1)), name, old)
	}
	if _, err := b.Built(keyOf(1)); err != nil {
		t.Fatal(err)
	}
	if out, err := Prune(t.Context(), b.opts.Dir, rule(0)); err != nil || len(out.Removed) > 0 || !holds(b, "lib") {
		t.Errorf("%+v, %v", out, err)
	}
	for _, c := range []struct {
		name string
		live []string
		kept bool
	}{{"the pod that builds is there", []string{keyOf(1)}, true}, {"nobody builds", nil, false}} {
		b := newBuilder(t)
		benched(t, b, "ann")
		must(t, os.Chtimes(b.home(keyOf(1)), old, old))
		if _, err := Prune(t.Context(), b.opts.Dir, rule(14*day, c.live...)); err != nil || holds(b, "lib") != c.kept {
			t.Errorf("%s: kept %v, %v", c.name, holds(b, "lib"), err)
		}
	}
}

// TestMarks: an environment of this machine's has a Python that can be run, and one of an
// image its note.
func TestMarks(t *testing.T) {
	for _, c := range []struct {
		name   string
		image  bool
		file   string
		mode   os.FileMode
		change func(*marker)
		ready  bool
	}{
		{"a Python", false, "bin/python", 0o755, nil, true},
		{"one that cannot be run", false, "bin/python", 0o644, nil, false},
		{"a note is no Python", false, bundle.NoteFile, 0o644, nil, false},
		{"a note", true, bundle.NoteFile, 0o644, nil, true},
		{"a Python is no note", true, "bin/python", 0o755, nil, false},
		{"another place", true, bundle.NoteFile, 0o644, func(m *marker) { m.Path += "x" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			home := t.TempDir()
			path := filepath.Join(home, venvDir)
			file := filepath.Join(path, c.file)
			must(t, os.MkdirAll(filepath.Dir(file), 0o755))
			must(t, os.WriteFile(file, nil, c.mode))
			if _, ok := readyAt(home); ok {
				t.Error("it is ready without a marker")
			}
			m := marker{Path: path, Image: c.image}
			if c.change != nil {
				c.change(&m)
			}
			must(t, markAt(home, m))
			if at, ok := readyAt(home); ok != c.ready || ok && at != path {
				t.Errorf("%s, %v", at, ok)
			}
		})
	}
}
