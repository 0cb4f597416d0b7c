//go:build fuse

package shelf

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/osfile/powertest"
)

// TestPowerOfAFolderThatIsThere: another process made the folder, and ended before it
// synced the name.
func TestPowerOfAFolderThatIsThere(t *testing.T) {
	powertest.EveryCut(t, powertest.AllIsLost, func(t *testing.T, dir string, powered func(func() error)) {
		root, stored := filepath.Join(dir, "shelf"), false
		powered(func() error {
			if err := os.Mkdir(root, 0o755); err != nil {
				return err
			}
			f, err := OpenFolder(root)
			if err == nil {
				err = f.Put(t.Context(), "a/b", 1, strings.NewReader("x"))
			}
			stored = err == nil
			return err
		})
		if _, err := os.Stat(filepath.Join(root, "a", "b")); stored && err != nil {
			t.Error(err)
		}
	})
}

// TestPowerOfAFolder: objects that a shelf has acknowledged exist after a loss of power,
// and objects that it has removed stay removed.
func TestPowerOfAFolder(t *testing.T) {
	powertest.EveryCut(t, powertest.Each, func(t *testing.T, dir string, powered func(func() error)) {
		root := filepath.Join(dir, "deep", "shelf")
		stored, removed := map[string]string{}, map[string]bool{}
		course := func() error {
			f, err := OpenFolder(root)
			if err != nil {
				return err
			}
			for key, content := range map[string]string{"team/trees/ab/1": "a list", "team/blobs/cd/2": "a content", "alone": "x"} {
				delete(removed, key) // from here on it may be there
				if err := f.Put(t.Context(), key, int64(len(content)), strings.NewReader(content)); err != nil {
					return err
				}
				stored[key] = content
			}
			delete(stored, "team/trees/ab/1")
			if err := f.Delete(t.Context(), "team/trees/ab/1"); err != nil {
				return err
			}
			removed["team/trees/ab/1"] = true
			return nil
		}
		powered(course)
		f, err := OpenFolder(root)
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range stored {
			in, err := f.Get(t.Context(), key)
			if err != nil {
				t.Errorf("%s was acknowledged: %v", key, err)
				continue
			}
			got, err := io.ReadAll(in)
			if err := errors.Join(err, in.Close()); err != nil || string(got) != want {
				t.Errorf("%s was acknowledged, and is %q: %v", key, got, err)
			}
		}
		for key := range removed {
			if _, err := f.Stat(t.Context(), key); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s was removed, and is there: %v", key, err)
			}
		}
		if err := course(); err != nil {
			t.Errorf("going on: %v", err)
		}
	})
}
