//go:build fuse

package mount

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/crafted"
)

// TestEveryTree: a mount shows the tree that a checkout writes, also after it showed another tree
// with other kinds at the same paths.
func TestEveryTree(t *testing.T) {
	s := newShop(t)
	into := t.TempDir()
	for m := range crafted.Trees(t, 10, 100) {
		tar, err := crafted.Pack(m)
		must(t, err)
		r, err := s.set.Put(t.Context(), "main", data.Tar(bytes.NewReader(tar)), data.PutOptions{AddOptions: data.AddOptions{Replace: true}})
		must(t, err)
		v, err := s.reopen(t).At(t.Context(), r.Commit.ID.String())
		must(t, err)
		point := filepath.Join(t.TempDir(), "point")
		must(t, os.Mkdir(point, 0o755))
		mount, err := Open(t.Context(), Options{View: v, Point: point, Log: s.log.log()})
		must(t, err)
		got, err := crafted.Found(point)
		_, closing := mount.Close()
		must(t, closing)
		must(t, err)
		if says := crafted.Differ(m, got); says != "" {
			t.Fatalf("%v is mounted %s", m, says)
		}
		_, err = v.Checkout(t.Context(), into, data.CheckoutOptions{Delete: true})
		must(t, err)
		crafted.Check(t, m, "is checked out", into)
	}
}

// TestHostileTrees: the mount refuses a tree that no session makes, or shows it as it is, and the
// mount can be closed.
func TestHostileTrees(t *testing.T) {
	for name, list := range map[string][]crafted.Entry{
		"an entry below a link": {{Path: "a", Target: "b"}, {Path: "a/x", Content: "1"}, {Path: "b/x", Content: "2"}},
		"a path out":            {{Path: "../x", Content: "1"}},
		"an empty part":         {{Path: "a//x", Content: "1"}},
		"a dot":                 {{Path: "./x", Content: "1"}},
		"the top":               {{Path: "/x", Content: "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			c, err := crafted.Store(t.Context(), s.bytes, -1, -1, list...)
			must(t, err)
			must(t, c.Contents(t.Context()))
			v, err := s.reopen(t).At(t.Context(), c.ID.String())
			must(t, err)
			m := s.mount(Options{View: v})
			if got, err := crafted.Found(m.Point()); err == nil {
				t.Errorf("it is shown: %v", got)
			}
		})
	}
}
