package data

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-dev/muster/internal/data/ref"
)

// TestEveryFileOfAMillion has a million files in one folder, changes one of them on each of
// two branches, and has that compared, merged, found by a glob, and taken to disk; what is
// stored and read for it is little.
func TestEveryFileOfAMillion(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 50_000
	}
	one, other := n/8, n*5/8
	p := newPlace(t)
	all := make([]Content, n)
	for i := range all {
		all[i] = Content{Path: fmt.Sprintf("all/%07d.png", i)}
		if i%1000 == 0 {
			all[i].Bytes = fmt.Append(nil, i)
		}
	}
	put(t, p.Dataset, "main", Contents(all), AddOptions{})
	must(t, p.Create(t.Context(), ref.Name{Kind: ref.Branch, Name: "side"}, "main"))
	for branch, i := range map[string]int{"main": one, "side": other} {
		r := put(t, p.Dataset, branch, Contents([]Content{{Path: all[i].Path, Bytes: []byte(branch)}}), AddOptions{})
		if r.Commit.Tree.Files != int64(n) || r.Stored > 100<<10 {
			t.Errorf("%s: %d files, %d bytes stored", branch, r.Commit.Tree.Files, r.Stored)
		}
	}
	merged, err := p.Merge(t.Context(), MergeOptions{Into: "main", From: "side", Author: "ada", Message: "m"})
	must(t, err)
	before, after := viewOf(t, p.Dataset, "main~2"), viewOf(t, p.Dataset, merged.Commit.ID.String())
	var changed []string
	must(t, Diff(t.Context(), before, after, func(c Change) error { changed = append(changed, c.Path); return nil }))
	if len(changed) != 2 || changed[0] != all[one].Path || changed[1] != all[other].Path {
		t.Errorf("changed: %q", changed)
	}
	var listed int
	must(t, after.Walk(t.Context(), "all", func(Entry) error { listed++; return nil }))
	if listed != n {
		t.Errorf("%d are listed", listed)
	}
	dir := t.TempDir()
	_, err = after.Checkout(t.Context(), dir, CheckoutOptions{Pattern: fmt.Sprintf("all/%04d*.png", one/1000), Below: "all"})
	must(t, err)
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1000 {
		t.Errorf("%d were taken to disk, %v", len(names), err)
	}
	text, err := os.ReadFile(filepath.Join(dir, filepath.Base(all[one].Path)))
	if err != nil || !bytes.Equal(text, []byte("main")) {
		t.Errorf("%q, %v", text, err)
	}
	sound(t, p)
}

func viewOf(t *testing.T, d *Dataset, reference string) *View {
	t.Helper()
	v, err := d.At(context.WithoutCancel(t.Context()), reference)
	must(t, err)
	return v
}
