package shim

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestExtract(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bin")
	content := []byte("#!/bin/sh\nexit 0\n")
	path, err := extract(dir, binary, content)
	if err != nil {
		t.Fatal(err)
	}
	if base := filepath.Base(path); !strings.HasPrefix(base, "muster-shim-") || len(base) != len("muster-shim-")+16 {
		t.Errorf("path = %s, want it named by its hash", path)
	}
	first, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if first.Mode().Perm() != 0o755 {
		t.Errorf("mode = %v, want executable", first.Mode())
	}

	t.Run("again", func(t *testing.T) {
		again, err := extract(dir, binary, content)
		if err != nil || again != path {
			t.Fatalf("extract = %s, %v, want %s", again, err, path)
		}
		if info, _ := os.Stat(path); !os.SameFile(first, info) {
			t.Error("an intact file was replaced")
		}
	})
	for name, damage := range map[string]func() error{
		"cut short":      func() error { return os.Truncate(path, 3) },
		"changed":        func() error { return os.WriteFile(path, []byte("#!/bin/sh\nexit 1\n"), 0o755) },
		"not executable": func() error { return os.Chmod(path, 0o644) },
		"removed":        func() error { return os.Remove(path) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			if _, err := extract(dir, binary, content); err != nil {
				t.Fatal(err)
			}
			if !intact(path, content) {
				t.Error("the file was not repaired")
			}
		})
	}
	t.Run("at once", func(t *testing.T) {
		fresh := filepath.Join(t.TempDir(), "bin")
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, err := extract(fresh, binary, content); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if files, _ := os.ReadDir(fresh); len(files) != 1 {
			t.Errorf("%d files, want 1", len(files))
		}
	})
	t.Run("another content", func(t *testing.T) {
		other, err := extract(dir, binary, []byte("other"))
		if err != nil || other == path {
			t.Errorf("extract = %s, %v, want another path", other, err)
		}
	})
}

func TestExtractEmbedded(t *testing.T) {
	path, err := Extract(t.TempDir())
	if errors.Is(err, ErrMissing) {
		return // built without: that is what it has to say
	}
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 13<<18 {
		t.Errorf("the shim is %v (%v), want at most 3.25 MiB", info, err)
	}
}
