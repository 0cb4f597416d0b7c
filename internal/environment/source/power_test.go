//go:build fuse

package source

import (
	"path/filepath"
	"testing"

	"github.com/muster-dev/muster/internal/osfile/powertest"
)

// TestPowerOfSnapshots: a snapshot that was acknowledged is there after a loss of
// power, and whole; the store goes on.
func TestPowerOfSnapshots(t *testing.T) {
	dir := files(t, map[string]string{"a/one.py": "one", "a/two.py": "two", "three.py": "three"})
	powertest.EveryCut(t, powertest.Each, func(t *testing.T, disk string, powered func(func() error)) {
		home, digest := filepath.Join(disk, "deep", "code"), ""
		powered(func() error {
			s, err := Open(home)
			if err != nil {
				return err
			}
			result, err := s.Snapshot(t.Context(), dir, Options{})
			digest = result.Digest
			return err
		})
		s, err := Open(home)
		must(t, err)
		if digest != "" {
			whole(t, s, digest, dir)
		}
		whole(t, s, take(t, s, dir), dir)
	})
}

// TestPowerOfPruning: a snapshot that is there after a loss of power during a prune is
// whole.
func TestPowerOfPruning(t *testing.T) {
	kept := files(t, map[string]string{"kept.py": "kept", "shared.py": "shared"})
	gone := files(t, map[string]string{"gone.py": "gone", "more.py": "more", "shared.py": "shared"})
	powertest.EveryCut(t, powertest.Each, func(t *testing.T, disk string, powered func(func() error)) {
		s, err := Open(filepath.Join(disk, "code"))
		must(t, err)
		stays, goes := take(t, s, kept), take(t, s, gone)
		age(t, s, stays, day, 0)
		age(t, s, goes, 30*day, 0)
		powered(func() error {
			_, err := s.Prune(t.Context(), rule(14*day))
			return err
		})
		s, err = Open(filepath.Join(disk, "code"))
		must(t, err)
		whole(t, s, stays, kept)
		if s.Has(goes) {
			whole(t, s, goes, gone)
		}
		_, err = s.Prune(t.Context(), rule(14*day))
		must(t, err)
		whole(t, s, take(t, s, gone), gone)
	})
}
