package data

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/backend/faulty"
	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/data/worktree"
)

func view(t *testing.T, d *Dataset, reference string) *View {
	t.Helper()
	v, err := d.At(t.Context(), reference)
	must(t, err)
	return v
}

// TestCheckoutGoesOn: what is there is not fetched again, what was changed there is
// put right, and what else is there stays unless it is to go.
func TestCheckoutGoesOn(t *testing.T) {
	p := newPlace(t)
	src, dst := t.TempDir(), t.TempDir()
	files(t, src, sample())
	put(t, p.Dataset, "main", Folder(src), AddOptions{})
	b := &faulty.Backend{Inner: p.bytes, Script: &faulty.Script{}}
	v := view(t, p.open(t, b, p.heads), "main")
	_, err := v.Checkout(t.Context(), dst, CheckoutOptions{})
	must(t, err)
	full := b.Reads()
	if r, err := v.Checkout(t.Context(), dst, CheckoutOptions{}); err != nil || r.Kept != r.Files || r.Replaced != 0 || r.Files != v.Commit().Tree.Files {
		t.Errorf("%+v %v", r, err)
	}
	if again := b.Reads() - full; again > 6 { // lists of chunks
		t.Errorf("%d reads at first, %d again", full, again)
	}
	must(t, os.Remove(filepath.Join(dst, "many/007")))
	must(t, os.Remove(filepath.Join(dst, "a/link")))
	must(t, os.Chmod(filepath.Join(dst, "run.sh"), 0o644))
	files(t, dst, map[string]string{"many/008": "number X", "long": noise(9, 9<<20), "other/x": "", "a/link": "a file", "many/stranger": "s"})
	r, err := v.Checkout(t.Context(), dst, CheckoutOptions{})
	if err != nil || r.Files-r.Kept != 5 || r.Replaced != 4 {
		t.Errorf("%+v %v", r, err)
	}
	want := sample()
	want["other/x"], want["many/stranger"] = "", "s"
	same(t, "put right", want, folder(t, dst))
	if r, err = v.Checkout(t.Context(), dst, CheckoutOptions{Delete: true}); err != nil || r.Removed != 2 {
		t.Errorf("%+v %v", r, err)
	}
	same(t, "and nothing else", sample(), folder(t, dst))
	if _, err := os.Stat(filepath.Join(dst, "other")); err == nil {
		t.Error("an empty folder stays")
	}
}

func TestCheckoutOfAPart(t *testing.T) {
	p := newPlace(t)
	set(t, p.Dataset, "main", "", map[string]string{"a": "1", "d/e/f": "2", "d/g": "3", "d-x": "4"})
	for name, c := range map[string]struct {
		o    CheckoutOptions
		want map[string]string
	}{
		"pattern": {CheckoutOptions{Pattern: "d/*"}, map[string]string{"d/g": "3"}},
		"below":   {CheckoutOptions{Pattern: "d", Below: "d"}, map[string]string{"e/f": "2", "g": "3"}},
		"both":    {CheckoutOptions{Pattern: "**/f", Below: "d/e"}, map[string]string{"f": "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			dst := t.TempDir()
			_, err := view(t, p.Dataset, "main").Checkout(t.Context(), dst, c.o)
			must(t, err)
			same(t, name, c.want, folder(t, dst))
		})
	}
}

// TestCheckoutWritesNothingWrong: content that is damaged is named, and no file has
// it.
func TestCheckoutWritesNothingWrong(t *testing.T) {
	p := newPlace(t)
	want := map[string]string{"a": noise(1, 500), "b": noise(2, 500), "long": noise(3, 3<<20)}
	set(t, p.Dataset, "main", "", want)
	must(t, p.bytes.List(t.Context(), "packs/", func(i backend.Info) error {
		content, err := backend.Read(t.Context(), p.bytes, i.Key)
		must(t, err)
		content[20] ^= 1 // of what came first
		return p.bytes.Put(t.Context(), i.Key, content)
	}))
	dst := t.TempDir()
	_, err := view(t, p.open(t, p.bytes, p.heads), "main").Checkout(t.Context(), dst, CheckoutOptions{})
	if err == nil || !strings.Contains(err.Error(), "packs/") {
		t.Errorf("%v", err)
	}
	for name, content := range folder(t, dst) {
		if content != want[name] && !worktree.Reserved(name) {
			t.Errorf("%s has been written with what was never put", name)
		}
	}
}

// TestCheckoutStaysInside: a tree that was not made by a session cannot lead out.
func TestCheckoutStaysInside(t *testing.T) {
	p := newPlace(t)
	s, err := p.Begin(t.Context(), "main", SessionOptions{})
	must(t, err)
	s.edits = []tree.Edit{{Path: "l", Entry: &tree.Entry{Path: "l", Kind: tree.Link, Target: "../../x", Size: 7}}}
	if err := s.apply(t.Context()); err == nil {
		t.Error("a link that leads out was taken into a tree")
	}
	must(t, s.Close(t.Context()))
	set(t, p.Dataset, "main", "", map[string]string{"d/x": "1"})
	put(t, p.Dataset, "main", linkSource{"d/l", "../y"}, AddOptions{})
	if _, err := view(t, p.Dataset, "main").Checkout(t.Context(), t.TempDir(), CheckoutOptions{Below: "d"}); err == nil || !strings.Contains(err.Error(), "out of the tree") {
		t.Errorf("a link that leads out of the part: %v", err)
	}
}

type linkSource struct{ path, target string }

func (linkSource) inOrder() bool { return false }

func (l linkSource) feed(ctx context.Context, f *feed) error {
	return f.add(ctx, item{entry: tree.Entry{Path: l.path, Kind: tree.Link, Target: l.target, Size: int64(len(l.target))}})
}
