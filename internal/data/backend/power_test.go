//go:build fuse

package backend

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/muster-dev/muster/internal/osfile/powertest"
)

// TestPowerOfAFolder: objects that a folder has acknowledged exist after a loss of power,
// and objects that it has removed stay removed.
func TestPowerOfAFolder(t *testing.T) {
	powertest.EveryCut(t, powertest.Each, func(t *testing.T, dir string, powered func(func() error)) {
		root := filepath.Join(dir, "deep", "store")
		stored, removed := map[string][]byte{}, map[string]bool{}
		powered(func() error { return fill(t.Context(), root, stored, removed) })
		f, err := OpenFolder(root)
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range stored {
			if got, err := Read(t.Context(), f, key); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s was acknowledged with %d bytes, and has %d: %v", key, len(want), len(got), err)
			}
		}
		for key := range removed {
			if _, err := f.Stat(t.Context(), key); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s was removed, and is there: %v", key, err)
			}
		}
		if err := fill(t.Context(), root, stored, removed); err != nil {
			t.Errorf("going on: %v", err)
		}
	})
}

// fill stores and removes objects, and records the acknowledged operations.
func fill(ctx context.Context, root string, stored map[string][]byte, removed map[string]bool) error {
	f, err := OpenFolder(root)
	if err != nil {
		return err
	}
	note := func(key string, content []byte, err error) error {
		if err == nil {
			stored[key] = content
		}
		return err
	}
	short, long := []byte("short"), bytes.Repeat([]byte("long "), 100_000)
	if err := note("packs/ab/one", short, f.Put(ctx, "packs/ab/one", short)); err != nil {
		return err
	}
	if err := note("packs/ab/two", long, f.PutAfter(ctx, "packs/ab/two", long, func() error { return nil })); err != nil {
		return err
	}
	started := f.Start("packs/cd/three")
	started.Grow(long[:len(long)/2])
	started.Grow(long)
	if err := note("packs/cd/three", long, started.Finish(ctx, long)); err != nil {
		return err
	}
	if err := note("packs/ef/four", long, f.PutFrom(ctx, "packs/ef/four", int64(len(long)), bytes.NewReader(long))); err != nil {
		return err
	}
	delete(stored, "packs/ab/one")
	if err := f.Delete(ctx, "packs/ab/one"); err != nil {
		return err
	}
	removed["packs/ab/one"] = true
	return nil
}

// TestPowerOfAFolderThatIsThere: another process made the folder, and ended before it
// synced the name.
func TestPowerOfAFolderThatIsThere(t *testing.T) {
	powertest.EveryCut(t, powertest.AllIsLost, func(t *testing.T, dir string, powered func(func() error)) {
		root, stored := filepath.Join(dir, "store"), map[string][]byte{}
		powered(func() error {
			if err := os.Mkdir(root, 0o755); err != nil {
				return err
			}
			return fill(t.Context(), root, stored, map[string]bool{})
		})
		for key := range stored {
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(key))); err != nil {
				t.Errorf("%s was acknowledged: %v", key, err)
			}
		}
	})
}

// TestPowerOfALongObject is the same for an object that is written past the page cache.
func TestPowerOfALongObject(t *testing.T) {
	content := bytes.Repeat([]byte("whole blocks, "), directFrom/8)
	for uintptr(unsafe.Pointer(unsafe.SliceData(content)))%directBlock != 0 {
		content = content[1:]
	}
	powertest.EveryCut(t, powertest.AllIsLost, func(t *testing.T, dir string, powered func(func() error)) {
		stored := false
		powered(func() error {
			f, err := OpenFolder(filepath.Join(dir, "store"))
			if err != nil {
				return err
			}
			err = f.Put(t.Context(), "packs/ab/long", content)
			stored = err == nil
			return err
		})
		f, err := OpenFolder(filepath.Join(dir, "store"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Read(t.Context(), f, "packs/ab/long")
		if stored && !bytes.Equal(got, content) || err == nil && len(got) != len(content) {
			t.Errorf("an object of %d bytes has %d: %v", len(content), len(got), err)
		}
	})
}
