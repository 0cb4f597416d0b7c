package data

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/data/tree"
)

// count counts the objects below a prefix.
func (p *place) count(t *testing.T, prefix string) (n int) {
	t.Helper()
	if err := p.bytes.List(t.Context(), prefix, func(backend.Info) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestBeside: what a session has built is committed to another dataset first and
// stored once for both; a branch that moves meanwhile keeps what it has.
func TestBeside(t *testing.T) {
	p := newPlace(t)
	p.put1(t, p.Dataset, map[string]string{"a": "1"})
	other := p.store.Dataset(&ref.Memory{})
	before := p.put1(t, other, map[string]string{"old": "3"}).Commit
	packs := p.count(t, "packs/")
	s, err := p.Begin(t.Context(), "main", SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files(t, dir, map[string]string{"b": "2"})
	if err := s.Add(t.Context(), Folder(dir), AddOptions{}); err != nil {
		t.Fatal(err)
	}
	root, err := s.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Trees().Get(t.Context(), root, "b")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	made, err := s.Beside(t.Context(), other, "main", CommitOptions{Message: "beside"}, func(ctx context.Context, on commit.Commit) (tree.Root, error) {
		if asked++; asked == 1 {
			if on.ID != before.ID {
				t.Errorf("it is put on %s", on.ID)
			}
			files(t, dir, map[string]string{"meanwhile": "4"})
			if _, err := other.Put(ctx, "main", Folder(dir), PutOptions{}); err != nil {
				return tree.Root{}, err
			}
			packs++
		}
		return s.Build(ctx, on.Tree, []tree.Edit{{Path: "b", Entry: &b}, {Path: "old"}})
	})
	if err != nil || asked != 2 || made.Message != "beside" || len(made.Parents) != 1 {
		t.Fatalf("%+v, asked %d times: %v", made, asked, err)
	}
	if d := cmp.Diff(map[string]string{"b": "2", "meanwhile": "4"}, held(t, other, "main")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]string{"a": "1"}, held(t, p.Dataset, "main")); d != "" {
		t.Errorf("what is not committed is seen: %s", d)
	}
	again, err := s.Beside(t.Context(), other, "main", CommitOptions{}, func(_ context.Context, on commit.Commit) (tree.Root, error) { return on.Tree, nil })
	if err != nil || again.ID != made.ID {
		t.Errorf("nothing differs, and %s is made: %v", again.ID, err)
	}
	stored := p.count(t, "packs/")
	if _, err := s.Commit(t.Context(), CommitOptions{}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"a": "1", "b": "2"}, held(t, p.Dataset, "main")); d != "" {
		t.Error(d)
	}
	if now := p.count(t, "packs/"); now != stored {
		t.Errorf("%d packs were stored anew for what is stored already", now-stored)
	}
	if _, err := s.Beside(t.Context(), other, "main", CommitOptions{}, nil); err == nil {
		t.Error("a session that is over commits")
	}
}

// TestBesideFails: what cannot be built is nobody's commit.
func TestBesideFails(t *testing.T) {
	p := newPlace(t)
	other := p.store.Dataset(&ref.Memory{})
	s, err := p.Begin(t.Context(), "main", SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	no := errors.New("no")
	_, err = s.Beside(t.Context(), other, "main", CommitOptions{}, func(context.Context, commit.Commit) (tree.Root, error) { return tree.Root{}, no })
	if !errors.Is(err, no) {
		t.Error(err)
	}
	if heads, err := other.Heads(t.Context()); err != nil || len(heads) != 0 {
		t.Error(heads, err)
	}
	if _, err := s.Commit(t.Context(), CommitOptions{}); !errors.Is(err, no) {
		t.Errorf("it commits all the same: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestTornLease: a lease of which a loss of power has left anything keeps nobody from
// collecting, and goes when its holder would be taken for dead.
func TestTornLease(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "cut off": `{"ttl": 90`, "zeroes": "\x00\x00\x00\x00"} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			first := p.put1(t, p.Dataset, map[string]string{"a": "1"}).Commit
			if err := p.bytes.Put(t.Context(), leasePrefix+"torn", []byte(text)); err != nil {
				t.Fatal(err)
			}
			if err := p.Remove(t.Context(), ref.Name{Kind: ref.Branch, Name: "main"}); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := p.store.Collect(t.Context(), CollectOptions{Heads: []ref.Heads{p.heads}, Grace: time.Nanosecond}); err != nil {
					t.Fatal(err)
				}
			}
			if p.count(t, leasePrefix) != 1 {
				t.Error("it went while its holder may live")
			}
			p.store.ttl = time.Nanosecond
			for range 2 {
				if _, err := p.store.Collect(t.Context(), CollectOptions{Heads: []ref.Heads{p.heads}, Grace: time.Nanosecond}); err != nil {
					t.Fatal(err)
				}
			}
			if n := p.count(t, leasePrefix); n != 0 {
				t.Errorf("%d leases are left", n)
			}
			if _, err := p.Resolve(t.Context(), first.ID.String()); err == nil {
				t.Error("what nothing leads to is still there")
			}
		})
	}
}

// TestLeasesInAFolder are found by others, and are not waited for.
func TestLeasesInAFolder(t *testing.T) {
	bytes, err := backend.OpenFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t)
	d := p.open(t, bytes, &ref.Memory{})
	lease, err := d.store.Pin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if live, err := d.store.leases(t.Context(), time.Now(), true); err != nil || len(live) != 1 {
		t.Errorf("%v %v", live, err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if live, err := d.store.leases(t.Context(), time.Now(), true); err != nil || len(live) != 0 {
		t.Errorf("%v %v", live, err)
	}
}
