package data

import (
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/data/tree"
)

// put1 commits files to a branch.
func (p *place) put1(t *testing.T, d *Dataset, m map[string]string) PutResult {
	t.Helper()
	dir := t.TempDir()
	files(t, dir, m)
	r, err := d.Put(t.Context(), "main", Folder(dir), PutOptions{AddOptions: AddOptions{Replace: true}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestTake: what one dataset has is put into another without a byte being copied,
// and stays when the first one is gone.
func TestTake(t *testing.T) {
	p := newPlace(t)
	long := strings.Repeat("abc", 1<<18)
	from := p.put1(t, p.Dataset, map[string]string{"d/x": "1", "d/long": long, "e": "2"})
	other := p.store.Dataset(&ref.Memory{})
	p.put1(t, other, map[string]string{"old": "3"})
	s, err := other.Begin(t.Context(), "main", SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Take(t.Context(), from.Commit.ID); err != nil {
		t.Fatal(err)
	}
	for e, err := range s.Trees().From(t.Context(), from.Commit.Tree, "d/") {
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(e.Path, "d/") {
			break
		}
		if err := s.Set(t.Context(), "taken/"+e.Path, e); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Set(t.Context(), "old", nil); err != nil {
		t.Fatal(err)
	}
	if root, err := s.Root(t.Context()); err != nil || root.Files != 2 {
		t.Fatal(root, err)
	}
	r, err := s.Commit(t.Context(), CommitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Stored > 4096 {
		t.Errorf("%d bytes were stored", r.Stored)
	}
	if err := p.Remove(t.Context(), ref.Name{Kind: ref.Branch, Name: "main"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := p.store.Collect(t.Context(), CollectOptions{Heads: []ref.Heads{p.heads, other.heads}, Grace: time.Nanosecond}); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(map[string]string{"taken/d/x": "1", "taken/d/long": long}, held(t, other, "main")); d != "" {
		t.Error(d)
	}
}

// TestTakeRefused: a commit that is not there cannot be taken, and the session is
// over then.
func TestTakeRefused(t *testing.T) {
	p := newPlace(t)
	s, err := p.Begin(t.Context(), "main", SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if err := s.Take(t.Context(), digest.ID{1}); err == nil {
		t.Error("a commit that is not there was taken")
	}
	if err := s.Set(t.Context(), "a", nil); err == nil {
		t.Error("the session goes on")
	}
}

// TestBuild: a tree that is built beside is what is committed, or is not.
func TestBuild(t *testing.T) {
	p := newPlace(t)
	base := p.put1(t, p.Dataset, map[string]string{"a": "1", "b": "2"}).Commit
	for _, become := range []bool{false, true} {
		s, err := p.Begin(t.Context(), "main", SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		a, err := s.Trees().Get(t.Context(), base.Tree, "a")
		if err != nil {
			t.Fatal(err)
		}
		moved := a
		moved.Path = "c"
		root, err := s.Build(t.Context(), base.Tree, []tree.Edit{{Path: "b"}, {Path: "c", Entry: &moved}})
		if err != nil {
			t.Fatal(err)
		}
		if become {
			err = s.Become(root)
		}
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Commit(t.Context(), CommitOptions{})
		if err != nil || r.Unchanged == become {
			t.Fatal(r, err)
		}
	}
	if d := cmp.Diff(map[string]string{"a": "1", "c": "1"}, held(t, p.Dataset, "main")); d != "" {
		t.Error(d)
	}
}

// TestOrphan: what was before an orphan is kept by nothing.
func TestOrphan(t *testing.T) {
	p := newPlace(t)
	first := p.put1(t, p.Dataset, map[string]string{"a": "1"})
	dir := t.TempDir()
	files(t, dir, map[string]string{"b": "2"})
	r, err := p.Put(t.Context(), "main", Folder(dir), PutOptions{CommitOptions: CommitOptions{Orphan: true, Provenance: json.RawMessage(`{"b": 1, "a": 2}`)}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Commit.Parents) != 0 {
		t.Errorf("%v", r.Commit.Parents)
	}
	for range 2 {
		if _, err := p.store.Collect(t.Context(), CollectOptions{Heads: []ref.Heads{p.heads}, Grace: time.Nanosecond}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Resolve(t.Context(), first.Commit.ID.String()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the first commit: %v", err)
	}
	if d := cmp.Diff(map[string]string{"a": "1", "b": "2"}, held(t, p.Dataset, "main")); d != "" {
		t.Error(d)
	}
	now, err := p.Resolve(t.Context(), "main")
	if err != nil || string(now.Provenance) != `{"a":2,"b":1}` {
		t.Errorf("%s %v", now.Provenance, err)
	}
}
