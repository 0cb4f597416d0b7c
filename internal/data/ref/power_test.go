//go:build fuse

package ref

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"testing"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/osfile/powertest"
)

// TestPowerOfAFolder: heads are where they were moved to last, or where they were
// about to be moved, after a loss of power.
func TestPowerOfAFolder(t *testing.T) {
	branch, tag := Name{Kind: Branch, Name: "main"}, Name{Kind: Tag, Name: "v1/rc"}
	one, two := digest.Of([]byte("one")), digest.Of([]byte("two"))
	steps := [][]Move{
		{branch.Move(digest.ID{}, one)},
		{tag.Move(digest.ID{}, one)},
		{branch.Move(one, two)},
		{tag.Move(one, digest.ID{})},
		{branch.Move(two, one)},
	}
	powertest.EveryCut(t, powertest.Each, func(t *testing.T, dir string, powered func(func() error)) {
		root := filepath.Join(dir, "deep", "heads")
		before, after := map[Name]digest.ID{}, map[Name]digest.ID{}
		powered(func() error {
			f, err := OpenFolder(root)
			if err != nil {
				return err
			}
			for _, moves := range steps {
				before = maps.Clone(after)
				for _, m := range moves {
					if after[m.Name] = m.To; m.To.IsZero() {
						delete(after, m.Name)
					}
				}
				if err := f.Swap(context.Background(), moves...); err != nil {
					return err
				}
				before = after
			}
			return nil
		})
		f, err := OpenFolder(root)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.List(t.Context())
		if err != nil || !maps.Equal(got, before) && !maps.Equal(got, after) {
			t.Fatalf("heads are %v, and not %v or %v: %v", got, before, after, err)
		}
		if err := f.Swap(t.Context(), branch.Move(got[branch], digest.Of([]byte("three")))); err != nil {
			t.Error(errors.Join(errors.New("going on"), err))
		}
	})
}
