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

// TestPowerOfReplacing: what Replace acknowledged is there after a loss of power,
// and whatever was not acknowledged leaves the old content.
func TestPowerOfReplacing(t *testing.T) {
	for name, replace := range map[string]func(dir string, content string) error{
		"by a path": func(dir, content string) error {
			return osfile.Replace(filepath.Join(dir, "a/b/file"), []byte(content), 0o640)
		},
		"in a root": func(dir, content string) (err error) {
			root, err := os.OpenRoot(dir)
			if err != nil {
				return err
			}
			return errors.Join(osfile.ReplaceIn(root, "a/b/file", []byte(content), 0o640), root.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			powertest.EveryCut(t, powertest.Each, func(t *testing.T, dir string, powered func(func() error)) {
				contents := []string{"", "the first content", "the second"}
				done := 0
				powered(func() error {
					if err := osfile.MakeFolder(filepath.Join(dir, "a", "b"), 0o755); err != nil {
						return err
					}
					for _, content := range contents[1:] {
						if err := replace(dir, content); err != nil {
							return err
						}
						done++
					}
					return nil
				})
				path := filepath.Join(dir, "a/b/file")
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
		})
	}
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
