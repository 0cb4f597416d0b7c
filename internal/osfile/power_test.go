//go:build fuse

package osfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-dev/muster/internal/osfile"
	"github.com/muster-dev/muster/internal/osfile/powertest"
)

// TestPowerOfReplacing: a content that Replace acknowledged exists after a loss of power.
// A content that it did not acknowledge may leave the old one.
func TestPowerOfReplacing(t *testing.T) {
	powertest.EveryCut(t, powertest.Each, func(t *testing.T, dir string, powered func(func() error)) {
		path := filepath.Join(dir, "a/b/file")
		contents := []string{"", "the first content", "the second"}
		done := 0
		powered(func() error {
			if err := osfile.MakeFolder(filepath.Join(dir, "a", "b"), 0o755); err != nil {
				return err
			}
			for _, content := range contents[1:] {
				if err := osfile.Replace(path, []byte(content), 0o640); err != nil {
					return err
				}
				done++
			}
			return nil
		})
		got, err := os.ReadFile(path)
		if err != nil && (done != 0 || !errors.Is(err, fs.ErrNotExist)) {
			t.Fatalf("after %d were acknowledged: %v", done, err)
		}
		if s := string(got); s != contents[done] && (done+1 == len(contents) || s != contents[done+1]) {
			t.Fatalf("after %d were acknowledged it is %q", done, s)
		}
		if info, err := os.Stat(path); err == nil && info.Mode() != 0o640 {
			t.Errorf("its mode is %v", info.Mode())
		}
	})
}

// TestPowerOfFolders: a folder that was made is there, with those above it.
func TestPowerOfFolders(t *testing.T) {
	powertest.EveryCut(t, powertest.Each, func(t *testing.T, dir string, powered func(func() error)) {
		path, made := filepath.Join(dir, "a", "b", "c"), false
		powered(func() error {
			// Another process made it, and ended before it synced the name.
			if err := os.Mkdir(filepath.Join(dir, "a"), 0o755); err != nil {
				return err
			}
			if err := osfile.MakeFolder(filepath.Join(dir, "a"), 0o755); err != nil {
				return err
			}
			err := osfile.MakeFolder(path, 0o755)
			made = err == nil
			return err
		})
		if info, err := os.Stat(path); made && (err != nil || !info.IsDir()) {
			t.Fatal(err)
		}
	})
}
