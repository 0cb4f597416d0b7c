//go:build fuse

package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/bale"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/osfile/powertest"
)

// TestPowerIsCut cuts the power at every change of a disk while commits are put, contents
// sent ahead, branches merged and what nobody needs collected: what was acknowledged is
// there and whole afterwards, and the store goes on. Heads are elsewhere, as the API
// server's are.
func TestPowerIsCut(t *testing.T) {
	powertest.EveryCut(t, powertest.AllIsLost, func(t *testing.T, dir string, powered func(func() error)) {
		heads := &ref.Memory{}
		cutWhile(t, filepath.Join(dir, "store"), powered, heads)
	})
}

// cutWhile runs the course on a disk that loses its power, and checks the disk then.
func cutWhile(t *testing.T, dir string, powered func(func() error), heads ref.Heads) {
	t.Helper()
	begin := func() (*Store, error) {
		folder, err := backend.OpenFolder(dir)
		if err != nil {
			return nil, err
		}
		s, err := Open(t.Context(), Options{Backend: bale.Over(folder)})
		if err == nil {
			s.slack, s.joining = 0, joining{small: 1 << 20, least: 1, full: 200_000, most: 9}
		}
		return s, err
	}
	acknowledged := map[string]map[string]string{}
	powered(func() error {
		store, err := begin()
		if err != nil {
			return err
		}
		return errors.Join(course(t.Context(), store, heads, acknowledged), store.Close())
	})
	store, err := begin()
	if err != nil {
		t.Fatalf("after the cut: %v", err)
	}
	for name, want := range acknowledged {
		got := held(t, store.Dataset(heads), name)
		for path, text := range want {
			if got[path] != text {
				t.Errorf("%s on %s was acknowledged, and is %.20q", path, name, got[path])
			}
		}
	}
	if found, err := store.Verify(t.Context(), VerifyOptions{Heads: []ref.Heads{heads}, Bytes: true}); err != nil || len(found.Problems) > 0 {
		t.Errorf("after the cut: %+v, %v", found.Problems, err)
	}
	again := map[string]map[string]string{}
	if err := errors.Join(course(t.Context(), store, heads, again), store.Close()); err != nil {
		t.Errorf("going on after the cut: %v", err)
	}
}

// course puts, sends ahead, merges and collects; what is acknowledged is noted.
func course(ctx context.Context, store *Store, heads ref.Heads, acknowledged map[string]map[string]string) error {
	d := store.Dataset(heads)
	note := func(branch string, from string, more map[string]string) {
		all := maps.Clone(acknowledged[from])
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, more)
		acknowledged[branch] = all
	}
	long := strings.Repeat("long ", 300_000)
	for i := range 2 {
		name := fmt.Sprint("f", i)
		if _, err := d.Put(ctx, "main", Stream(name, strings.NewReader(name+long)), PutOptions{}); err != nil {
			return err
		}
		note("main", "main", map[string]string{name: name + long})
	}
	s, err := d.Begin(ctx, "main", SessionOptions{})
	if err != nil {
		return err
	}
	contents := []Content{store.Content("a", []byte("1")), store.Content("b", []byte("2"))}
	err = errors.Join(s.Send(ctx, contents[:1]), s.Send(ctx, contents[1:]), s.Add(ctx, Contents(contents), AddOptions{}))
	if err == nil {
		_, err = s.Commit(ctx, CommitOptions{})
	}
	if err = errors.Join(err, s.Close(ctx)); err != nil {
		return err
	}
	note("main", "main", map[string]string{"a": "1", "b": "2"})
	if _, err := d.Put(ctx, "side", Stream("side", strings.NewReader("3")), PutOptions{}); err != nil {
		return err
	}
	note("side", "side", map[string]string{"side": "3"})
	if _, err := d.Merge(ctx, MergeOptions{From: "side", Into: "main"}); err != nil {
		return err
	}
	note("main", "main", acknowledged["side"])
	delete(acknowledged, "side") // from here on it may be gone
	if err := d.Remove(ctx, ref.Name{Kind: ref.Branch, Name: "side"}); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := d.Put(ctx, "gone", Stream("gone", strings.NewReader(noise(1, 100_000))), PutOptions{}); err != nil {
		return err
	}
	if _, err = store.Collect(ctx, CollectOptions{Heads: []ref.Heads{heads}}); err != nil {
		return err
	}
	// What lies together goes, but for a little, which comes together anew.
	if err := d.Remove(ctx, ref.Name{Kind: ref.Branch, Name: "gone"}); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for range 2 {
		if _, err = store.Collect(ctx, CollectOptions{Heads: []ref.Heads{heads}}); err != nil {
			return err
		}
	}
	return nil
}
