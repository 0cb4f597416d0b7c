package pipeline

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/crafted"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/pipeline"
	"github.com/muster-dev/muster/internal/pipeline/harvest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestEveryTreeAsInput compares the input of a datum with a checkout of the commit: the whole commit,
// and each of its topmost files and folders by itself.
func TestEveryTreeAsInput(t *testing.T) {
	trees := 200
	if testing.Short() {
		trees = 20
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 7))
	store, err := data.Open(t.Context(), data.Options{Backend: &backend.Memory{}, Workers: 2})
	must(t, err)
	defer func() { must(t, store.Close()) }()
	set := store.Dataset(&ref.Memory{})
	for range trees {
		m := crafted.Random(random)
		packed, err := crafted.Pack(m)
		must(t, err)
		_, err = set.Put(t.Context(), "main", data.Tar(bytes.NewReader(packed)), data.PutOptions{AddOptions: data.AddOptions{Replace: true}})
		must(t, err)
		view, err := set.At(t.Context(), "main")
		must(t, err)
		var each []pipeline.Given
		known := map[string]bool{}
		for name := range m {
			path, _, _ := crafted.Parse(name)
			top, _, _ := strings.Cut(path, "/")
			if known[top] {
				continue
			}
			known[top] = true
			e, err := view.Stat(t.Context(), top)
			must(t, err)
			each = append(each, pipeline.Given{Input: "x", Path: top, Kind: e.Kind, Files: 1})
		}
		for name, given := range map[string][]pipeline.Given{"whole": {{Input: "x", Kind: tree.Folder, Files: 1}}, "each by itself": each} {
			w := &work{
				store: store, stage: &pipeline.Stage{Sources: []*pipeline.Source{{Name: "x"}}}, views: []*data.View{view},
				tasks: map[string]pipeline.Task{"d": {Datum: pipeline.Datum{Given: given}}},
			}
			into := t.TempDir()
			root, err := os.OpenRoot(into)
			must(t, err)
			err = w.fetch(t.Context(), foreman.Datum{ID: "d"}, root)
			must(t, root.Close())
			if err != nil && name != "whole" && strings.Contains(err.Error(), "out of the tree") {
				continue // of a folder by itself links may lead out
			}
			if err != nil {
				t.Fatalf("%v, %s: %v", m, name, err)
			}
			got, err := crafted.Found(filepath.Join(into, "x"))
			must(t, err)
			if says := crafted.Differ(m, got); says != "" {
				t.Fatalf("%v is given %s, %s", m, name, says)
			}
		}
	}
}

// TestHostileOutput changes an output after it was checked, as a program that was left behind does. The
// output is recorded, or the datum fails; all other results are recorded.
func TestHostileOutput(t *testing.T) {
	link := func(target string) func(string) error {
		return func(path string) error { return os.Symlink(target, path) }
	}
	pipe := func(path string) error { return unix.Mkfifo(path, 0o600) }
	socket := func(path string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) }
	file := func(path string) error { return os.WriteFile(path, []byte("made"), 0o600) }
	for name, c := range map[string]struct {
		entry string
		plant func(path string) error
		// spoils is the error of the datum. Empty: the datum is recorded.
		spoils string
	}{
		"a file":                     {"out/f", file, ""},
		"a link within":              {"out/f", link("made"), ""},
		"no output":                  {"out", func(string) error { return nil }, "no such file"},
		"a file as output":           {"out", file, "out is a file"},
		"a link as output":           {"out", link("/etc"), "out is a symbolic link"},
		"a link to the inputs":       {"out", link("in"), "out is a symbolic link"},
		"a pipe as output":           {"out", pipe, "out is a pipe"},
		"a pipe":                     {"out/f", pipe, "f is a pipe"},
		"a socket":                   {"out/f", socket, "f is a socket"},
		"a link out":                 {"out/f", link("../in/secret"), "out of the tree"},
		"an absolute link":           {"out/f", link("/etc/hostname"), "out of the tree"},
		"a link out over a link":     {"out/z", link("a/b/up/../in"), "over another link"},
		"a name of ours":             {"out/.muster-partial-1", file, "is reserved"},
		"a path that is too long":    {"out/" + strings.Repeat(strings.Repeat("d", 249)+"/", 16) + "f", file, "at most 4095"},
		"a log that is a link":       {"log", link("in/secret"), ""},
		"a log that is a pipe":       {"log", pipe, ""},
		"a log that is a folder":     {"log", func(path string) error { return os.Mkdir(path, 0o755) }, ""},
		"a log that is a hard link":  {"log", func(path string) error { return os.Link(filepath.Join(filepath.Dir(path), "out/made"), path) }, ""},
		"a folder in place of a log": {"log", func(path string) error { return os.MkdirAll(filepath.Join(path, "f"), 0o755) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for _, at := range []string{"in", "out/a/b"} {
				must(t, os.MkdirAll(filepath.Join(folder, at), 0o755))
			}
			must(t, os.Symlink("../..", filepath.Join(folder, "out/a/b/up")))
			must(t, os.WriteFile(filepath.Join(folder, "in/secret"), []byte("secret"), 0o600))
			must(t, os.WriteFile(filepath.Join(folder, "out/made"), []byte("made"), 0o600))
			root, err := os.OpenRoot(folder) // which reaches paths that are too long for the kernel
			must(t, err)
			defer func() { _ = root.Close() }()
			must(t, root.RemoveAll(c.entry))
			must(t, root.MkdirAll(filepath.Dir(c.entry), 0o755))
			if len(c.entry) > 4000 {
				made, err := root.Create(c.entry)
				must(t, err)
				must(t, made.Close())
			} else {
				must(t, c.plant(filepath.Join(folder, c.entry)))
			}
			var out bytes.Buffer
			r := &foreman.Result{Datum: foreman.Datum{ID: "d"}, Folder: folder, Outcome: shift.Outcome{ID: "d"}}
			done := make(chan error, 1)
			go func() { done <- harvest.Made(tar.NewWriter(&out), strings.Repeat("k", 100), r) }()
			select {
			case err = <-done:
			case <-time.After(20 * time.Second):
				t.Fatal("it waits")
			}
			var spoiled *foreman.SpoiledError
			switch {
			case c.spoils == "" && err != nil, c.spoils != "" && (!errors.As(err, &spoiled) || spoiled.ID != "d" || !strings.Contains(err.Error(), c.spoils)):
				t.Errorf("%v, want %q", err, c.spoils)
			}
			for in := tar.NewReader(&out); ; {
				h, err := in.Next()
				if err != nil {
					break
				}
				if text, _ := io.ReadAll(in); string(text) == "secret" {
					t.Errorf("%s is a file outside of the output", h.Name)
				}
			}
		})
	}
}

// TestSharedFolder: the folder of a datum is shown to another job of the stage as it is; nothing that
// a job before put into it gets other rights elsewhere.
func TestSharedFolder(t *testing.T) {
	top := t.TempDir()
	host, datum := filepath.Join(top, "host"), filepath.Join(top, "datum")
	must(t, os.Mkdir(host, 0o700))
	for name, plant := range map[string]func(path string) error{
		"a link":              func(path string) error { return os.Symlink(host, path) },
		"a link out and back": func(path string) error { return os.Symlink("../host", path) },
		"a pipe":              func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a file":              func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		must(t, os.RemoveAll(datum))
		must(t, os.Mkdir(datum, 0o700))
		must(t, plant(filepath.Join(datum, "out")))
		if err := shared(&v1alpha1.TrainingJob{}, datum, 0o755); err == nil {
			t.Errorf("%s is shown", name)
		}
		if info, err := os.Stat(host); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: the folder of the machine has the mode %v, %v", name, info.Mode(), err)
		}
	}
}
