package foreman

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// lay makes files, and folders of names that end with a slash.
func lay(t *testing.T, folder string, names ...string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte("of the one before"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// found is everything below a folder.
func found(t *testing.T, folder string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(folder, path); name != "." {
			out = append(out, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestShelfHasNothingOfTheOneBefore(t *testing.T) {
	for _, test := range []struct {
		name string
		has  []string
		want []string // nil: the folder is removed
	}{
		{"computed", []string{"in/a/deep/file", "in/b/", "out/made", "log", "outcome.json"}, []string{"in", "unmarked"}},
		{"failed", []string{"in/a/file", "out/half", "log", "begun"}, []string{"in"}},
		{"carried", []string{"in/a/file", "out/made", "log", "given", "begun", "outcome.json"}, []string{"in", "unmarked"}},
		{"with what is nobody's", []string{"in/a/file", "in/left", "out/made", "left/behind", "outcome.json"}, []string{"in", "unmarked"}},
		{"with an old mark", []string{"in/", "unmarked", "outcome.json"}, []string{"in", "unmarked"}},
		{"without its inputs", []string{"out/made", "outcome.json"}, nil},
		{"inputs are a file", []string{"in", "outcome.json"}, nil},
		{"an outcome that is a folder", []string{"in/", "outcome.json/", "unmarked"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := shelf{dir: t.TempDir()}
			before, after := filepath.Join(s.dir, "before"), filepath.Join(s.dir, "after")
			lay(t, before, test.has...)
			if err := s.give(before, false); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(before); err == nil {
				t.Error("the folder still has the name of the datum before")
			}
			if got, want := s.take(after), test.want != nil; got != want {
				t.Fatalf("there is a folder: %v, want %v", got, want)
			}
			if test.want == nil {
				if got := found(t, s.dir); got != nil {
					t.Errorf("what is left is %q", got)
				}
				return
			}
			if got := found(t, after); !slices.Equal(got, test.want) {
				t.Errorf("the next datum has %q, want %q", got, test.want)
			}
		})
	}
}

// Of what a program was shown that is used again which is as it was made.
func TestShelfKeepsWhatIsAsGoodAsNew(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, folder string)
		want  []string
	}{
		{"all", func(*testing.T, string) {}, []string{"in", "in/a", "in/b", "log", "out", "unmarked"}},
		{"it said something", func(t *testing.T, folder string) { lay(t, folder, "log") }, []string{"in", "in/a", "in/b", "out", "unmarked"}},
		{"no folder of an input", func(t *testing.T, folder string) { lay(t, folder, "in/c/", "more/") }, []string{"in", "in/a", "in/b", "log", "out", "unmarked"}},
		{"another mode", func(t *testing.T, folder string) { change(t, filepath.Join(folder, "out"), 0o700) }, []string{"in", "in/a", "in/b", "log", "unmarked"}},
		{"a log that others may read", func(t *testing.T, folder string) { change(t, filepath.Join(folder, "log"), 0o644) }, []string{"in", "in/a", "in/b", "out", "unmarked"}},
		{"a log that has another name, too", func(t *testing.T, folder string) {
			if err := os.Link(filepath.Join(folder, "log"), filepath.Join(t.TempDir(), "kept")); err != nil {
				t.Fatal(err)
			}
		}, []string{"in", "in/a", "in/b", "out", "unmarked"}},
		{"another owner", func(t *testing.T, folder string) {
			if os.Getuid() != 0 {
				t.Skip("files are given away by root alone")
			}
			if err := os.Chown(filepath.Join(folder, "out"), 12345, -1); err != nil {
				t.Fatal(err)
			}
		}, []string{"in", "in/a", "in/b", "log", "unmarked"}},
		{"attributes", func(t *testing.T, folder string) {
			err := unix.Lsetxattr(filepath.Join(folder, "in", "a"), "user.of", []byte("the one before"), 0)
			if errors.Is(err, unix.ENOTSUP) {
				t.Skip("there are no attributes here")
			}
			if err != nil {
				t.Fatal(err)
			}
		}, []string{"in", "in/b", "log", "out", "unmarked"}},
		{"a link", func(t *testing.T, folder string) {
			err := os.RemoveAll(filepath.Join(folder, "in/a"))
			if err = errors.Join(err, os.Symlink("b", filepath.Join(folder, "in/a"))); err != nil {
				t.Fatal(err)
			}
		}, []string{"in", "in/b", "log", "out", "unmarked"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := shelf{dir: t.TempDir(), inputs: []string{"a", "b"}}
			before, after := filepath.Join(s.dir, "before"), filepath.Join(s.dir, "after")
			lay(t, before, "in/a/deep/file", "in/b/", "out/made", "outcome.json")
			if err := os.WriteFile(filepath.Join(before, "log"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			learn(t, &s, before)
			test.spoil(t, before)
			if err := s.give(before, true); err != nil || !s.take(after) {
				t.Fatal("there is no folder", err)
			}
			if got := found(t, after); !slices.Equal(got, test.want) {
				t.Errorf("the next datum has %q, want %q", got, test.want)
			}
		})
	}
}

// The folders that are always used again are so as they were made.
func TestShelfRemovesFoldersThatWereChanged(t *testing.T) {
	for _, test := range []struct{ name, path string }{{"that of the datum", "."}, {"that of the inputs", "in"}} {
		t.Run(test.name, func(t *testing.T) {
			s := shelf{dir: t.TempDir()}
			before := filepath.Join(s.dir, "before")
			lay(t, before, "in/a/file", "outcome.json")
			learn(t, &s, before)
			change(t, filepath.Join(before, test.path), 0o777)
			if err := s.give(before, false); err != nil {
				t.Fatal(err)
			}
			if got := found(t, s.dir); got != nil {
				t.Errorf("what is left is %q", got)
			}
		})
	}
}

func change(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestShelfIsBounded(t *testing.T) {
	s := shelf{dir: t.TempDir()}
	for i := range mostSpare + 3 {
		folder := filepath.Join(s.dir, fmt.Sprint(i))
		lay(t, folder, "in/a/file", "out/made", "outcome.json")
		if err := s.give(folder, false); err != nil {
			t.Fatal(err)
		}
	}
	list, err := os.ReadDir(s.dir)
	if err != nil || len(list) != mostSpare {
		t.Fatalf("there are %d folders (%v), want %d", len(list), err, mostSpare)
	}
}

// A datum that was tried before keeps its folder, with its log.
func TestShelfLeavesWhatWasTried(t *testing.T) {
	s := shelf{dir: t.TempDir()}
	for _, name := range []string{"before", "tried", "next"} {
		lay(t, filepath.Join(s.dir, name), "in/a/file", "outcome.json")
	}
	if err := s.give(filepath.Join(s.dir, "before"), false); err != nil {
		t.Fatal(err)
	}
	tried := filepath.Join(s.dir, "tried")
	lay(t, tried, "log")
	if s.take(tried) {
		t.Error("the folder of a datum that was tried is another one now")
	}
	if _, err := os.Lstat(filepath.Join(tried, shift.LogFile)); err != nil {
		t.Error(err)
	}
	if !s.take(filepath.Join(s.dir, "fresh")) {
		t.Error("the spare folder is gone")
	}
}

// Whoever removed a spare folder is in nobody's way.
func TestShelfWithoutItsFolders(t *testing.T) {
	s := shelf{dir: t.TempDir()}
	for _, name := range []string{"a", "b"} {
		lay(t, filepath.Join(s.dir, name), "in/", "outcome.json")
		if err := s.give(filepath.Join(s.dir, name), false); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(s.dir, s.names[1])); err != nil {
		t.Fatal(err)
	}
	if s.take(filepath.Join(s.dir, "c")) || !s.take(filepath.Join(s.dir, "d")) {
		t.Error("a folder that is gone was given, or kept the other from being given")
	}
}

// learn has a shelf look at the folder of a datum.
func learn(t *testing.T, s *shelf, folder string) {
	t.Helper()
	top, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = top.Close() }()
	in, err := top.OpenRoot("in")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	s.learn(top, in)
}
