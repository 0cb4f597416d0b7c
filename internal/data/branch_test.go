package data

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/backend/faulty"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/ref"
)

// set commits some files to a branch, "-" removes.
func set(t *testing.T, d *Dataset, name, message string, m map[string]string) commit.Commit {
	t.Helper()
	s, err := d.Begin(t.Context(), name, SessionOptions{})
	must(t, err)
	for path, text := range m {
		if text == "-" {
			n, err := s.Remove(t.Context(), path)
			if err != nil || n != 1 {
				t.Fatalf("removing %s: %d, %v", path, n, err)
			}
			continue
		}
		must(t, s.Add(t.Context(), Stream(path, strings.NewReader(text)), AddOptions{}))
	}
	r, err := s.Commit(t.Context(), CommitOptions{Message: message, AllowEmpty: true})
	must(t, err)
	return r.Commit
}

// TestBranchingCostsNothing: to branch or tag a dataset stores nothing, and reads as much of
// one of many files as of one of a few.
func TestBranchingCostsNothing(t *testing.T) {
	reads := map[int]int{}
	for _, size := range []int{3, 20_000} {
		p := newPlace(t)
		var all []Content
		for i := range size {
			all = append(all, p.store.Content(fmt.Sprintf("%02d/%d", i%50, i), []byte(fmt.Sprint(i))))
		}
		put(t, p.Dataset, "main", Contents(all), AddOptions{})
		stored := len(objects(t, p))
		counted := &faulty.Backend{Inner: p.bytes, Script: &faulty.Script{}}
		d := p.open(t, counted, p.heads)
		before := counted.Reads()
		must(t, d.Create(t.Context(), branch("dev"), "main"))
		must(t, d.Create(t.Context(), ref.Name{Kind: ref.Tag, Name: "v1"}, "dev"))
		reads[size] = counted.Reads() - before
		if now := len(objects(t, p)); now != stored {
			t.Errorf("%d files: %d objects, %d before", size, now, stored)
		}
	}
	if reads[3] != reads[20_000] || reads[3] > 12 { // each reads its lease back twice
		t.Errorf("objects that were read, by how many files there are: %v", reads)
	}
}

// objects are the keys of packs and commits.
func objects(t *testing.T, p *place) (keys []string) {
	t.Helper()
	for _, prefix := range []string{pack.Prefix, commit.Prefix} {
		must(t, p.bytes.List(t.Context(), prefix, func(i backend.Info) error {
			keys = append(keys, i.Key)
			return nil
		}))
	}
	return keys
}

func TestReferences(t *testing.T) {
	p := newPlace(t)
	var all []commit.Commit
	for i := range 4 {
		all = append(all, set(t, p.Dataset, "main", fmt.Sprint(i), map[string]string{"f": fmt.Sprint(i)}))
	}
	must(t, p.Create(t.Context(), ref.Name{Kind: ref.Tag, Name: "v1"}, "main~2"))
	must(t, p.Create(t.Context(), branch("dev/x"), "v1"))
	for reference, want := range map[string]int{
		"": 3, "main": 3, "main~": 2, "main~1": 2, "main~3": 0, "~2": 1, "v1": 1, "v1~1": 0, "dev/x": 1,
		all[2].ID.String(): 2, all[2].ID.String()[:12]: 2, all[2].ID.String()[:8] + "~1": 1,
	} {
		if c, err := p.Resolve(t.Context(), reference); err != nil || c.ID != all[want].ID {
			t.Errorf("%q: %s (%v), want %s", reference, c.Message, err, all[want].Message)
		}
	}
	for _, reference := range []string{"none", "main~4", "v2", "00000000", strings.Repeat("0", 64), all[0].ID.String()[:7]} {
		if _, err := p.Resolve(t.Context(), reference); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", reference, err)
		}
	}
	for _, reference := range []string{"main~x", "main~-1", "a b"} {
		if _, err := p.Resolve(t.Context(), reference); err == nil {
			t.Errorf("%q was taken", reference)
		}
	}
	var log []string
	must(t, p.Log(t.Context(), "main", func(c commit.Commit) error { log = append(log, c.Message); return nil }))
	if d := cmp.Diff([]string{"3", "2", "1", "0"}, log); d != "" {
		t.Error(d)
	}
	for _, c := range []struct {
		older, younger string
		want           bool
	}{{"main~3", "main", true}, {"main", "main", true}, {"main", "v1", false}, {"v1", "dev/x", true}} {
		if got, err := p.Ancestor(t.Context(), c.older, c.younger); err != nil || got != c.want {
			t.Errorf("%s before %s: %v %v", c.older, c.younger, got, err)
		}
	}
	heads, err := p.Heads(t.Context())
	must(t, err)
	var names []string
	for _, h := range heads {
		names = append(names, h.String())
	}
	if d := cmp.Diff([]string{"branch dev/x", "branch main", "tag v1"}, names); d != "" {
		t.Error(d)
	}
	must(t, p.Reset(t.Context(), "main", "v1"))
	same(t, "reset", map[string]string{"f": "1"}, held(t, p.Dataset, "main"))
	var moved *ref.MovedError
	if err := p.Create(t.Context(), branch("main"), "v1"); !errors.As(err, &moved) {
		t.Errorf("a branch that is there was created: %v", err)
	}
	if err := p.Remove(t.Context(), branch("none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a branch that is not there was removed: %v", err)
	}
}

func TestMerge(t *testing.T) {
	type m = map[string]string
	for name, c := range map[string]struct {
		ours, theirs m
		prefer       Prefer
		want         m
		conflicts    []string
		clash        bool
	}{
		"both sides":               {ours: m{"a": "2"}, theirs: m{"new": "n"}, want: m{"a": "2", "b": "1", "c/d": "1", "new": "n"}},
		"nothing here":             {ours: m{"a": "1"}, theirs: m{"b": "2"}, want: m{"a": "1", "b": "2", "c/d": "1"}},
		"removed there":            {ours: m{"a": "2"}, theirs: m{"b": "-"}, want: m{"a": "2", "c/d": "1"}},
		"the same on both":         {ours: m{"a": "2", "b": "-"}, theirs: m{"a": "2", "b": "-"}, want: m{"a": "2", "c/d": "1"}},
		"differently":              {ours: m{"a": "2", "b": "2"}, theirs: m{"a": "3", "b": "2"}, conflicts: []string{"a"}},
		"changed here, gone there": {ours: m{"a": "2"}, theirs: m{"a": "-"}, conflicts: []string{"a"}},
		"gone here, changed there": {ours: m{"a": "-"}, theirs: m{"a": "2"}, conflicts: []string{"a"}},
		"new on both":              {ours: m{"n": "1"}, theirs: m{"n": "2"}, conflicts: []string{"n"}},
		"ours counts":              {ours: m{"a": "2"}, theirs: m{"a": "3", "b": "3"}, prefer: PreferInto, want: m{"a": "2", "b": "3", "c/d": "1"}},
		"theirs counts":            {ours: m{"a": "2"}, theirs: m{"a": "3", "b": "-"}, prefer: PreferFrom, want: m{"a": "3", "c/d": "1"}},
		"a file and a folder":      {ours: m{"x": "1"}, theirs: m{"x/y": "1"}, clash: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			set(t, p.Dataset, "main", "base", m{"a": "1", "b": "1", "c/d": "1"})
			must(t, p.Create(t.Context(), branch("side"), "main"))
			theirs := set(t, p.Dataset, "side", "theirs", c.theirs)
			ours := set(t, p.Dataset, "main", "ours", c.ours)
			r, err := p.Merge(t.Context(), MergeOptions{Into: "main", From: "side", Prefer: c.prefer, Message: "merged"})
			if c.clash || c.conflicts != nil {
				var conflict *ConflictError
				if errors.As(err, &conflict) == c.clash || !c.clash && !slices.Equal(conflict.Paths, c.conflicts) || err == nil {
					t.Errorf("%v, want conflicts at %v", err, c.conflicts)
				}
				if at, err := p.Resolve(t.Context(), "main"); err != nil || at.ID != ours.ID {
					t.Errorf("the branch moved to %s (%v)", at.ID.Short(), err)
				}
				return
			}
			must(t, err)
			same(t, "merged", c.want, held(t, p.Dataset, "main"))
			if len(r.Commit.Parents) != 2 || r.Commit.Parents[0] != ours.ID || r.Commit.Parents[1] != theirs.ID {
				t.Errorf("parents %v", r.Commit.Parents)
			}
			again, err := p.Merge(t.Context(), MergeOptions{Into: "main", From: "side"})
			if err != nil || !again.Unchanged || again.Commit.ID != r.Commit.ID {
				t.Errorf("again: %+v %v", again, err)
			}
			back, err := p.Merge(t.Context(), MergeOptions{Into: "side", From: "main"})
			if err != nil || !back.FastForward || back.Commit.ID != r.Commit.ID {
				t.Errorf("back: %+v %v", back, err)
			}
			same(t, "fast-forward", c.want, held(t, p.Dataset, "side"))
		})
	}
}

// TestManyWriteOneBranch: none is lost, and each is one commit.
func TestManyWriteOneBranch(t *testing.T) {
	p := newPlace(t)
	var group sync.WaitGroup
	want := map[string]string{}
	for w := range 4 {
		for i := range 6 {
			want[fmt.Sprintf("w%d/f%d", w, i)] = fmt.Sprint(w, i)
		}
		d := p.open(t, p.bytes, p.heads)
		group.Go(func() {
			for i := range 6 {
				if _, err := d.Put(t.Context(), "main", Stream(fmt.Sprintf("w%d/f%d", w, i), strings.NewReader(fmt.Sprint(w, i))), PutOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	same(t, "all of them", want, held(t, p.Dataset, "main"))
	n := 0
	must(t, p.Log(t.Context(), "main", func(commit.Commit) error { n++; return nil }))
	if n != 24 {
		t.Errorf("%d commits", n)
	}
}

func TestListsAndPatterns(t *testing.T) {
	p := newPlace(t)
	m := map[string]string{"a": "1", "a.b": "22", "d/e/f.png": "333", "d/g.png": "4444", "d/h.txt": "5", "d-x/y.png": "6", "[z]": "7"}
	set(t, p.Dataset, "main", "", m)
	v, err := p.At(t.Context(), "")
	must(t, err)
	for folder, want := range map[string][]string{
		"": {"[z] 1", "a 1", "a.b 2", "d-x/ 1 1", "d/ 3 8"}, "d": {"d/e/ 1 3", "d/g.png 4", "d/h.txt 1"}, "d/e/": {"d/e/f.png 3"},
	} {
		var got []string
		must(t, v.List(t.Context(), folder, func(e Entry) error {
			if e.Files > 0 {
				got = append(got, fmt.Sprintf("%s/ %d %d", e.Path, e.Files, e.Size))
			} else {
				got = append(got, fmt.Sprintf("%s %d", e.Path, e.Size))
			}
			return nil
		}))
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q: %s", folder, d)
		}
	}
	for _, none := range []string{"x", "a", "d/g"} {
		if err := v.List(t.Context(), none, func(Entry) error { return nil }); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", none, err)
		}
	}
	for pattern, want := range map[string]string{
		"": "[z] a a.b d-x/y.png d/e/f.png d/g.png d/h.txt", "d": "d/e/f.png d/g.png d/h.txt", "a": "a", "/d/": "d/e/f.png d/g.png d/h.txt",
		"*": "[z] a a.b", "d/*.png": "d/g.png", "**/*.png": "d-x/y.png d/e/f.png d/g.png", "d/**": "d/e/f.png d/g.png d/h.txt",
		"d*/*.png": "d-x/y.png d/g.png", "a?b": "a.b", "[a-c]": "a", `\[z]`: "[z]", "none*": "", "**": "[z] a a.b d-x/y.png d/e/f.png d/g.png d/h.txt", "d/**/f.png": "d/e/f.png", "**/d/**": "d/e/f.png d/g.png d/h.txt",
	} {
		var got []string
		must(t, v.Walk(t.Context(), pattern, func(e Entry) error { got = append(got, e.Path); return nil }))
		if d := cmp.Diff(want, strings.Join(got, " ")); d != "" {
			t.Errorf("%q: %s", pattern, d)
		}
	}
	for _, bad := range []string{"[", "a/[b", "../x", "a//b"} {
		if err := v.Walk(t.Context(), bad, func(Entry) error { return nil }); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	n := 0
	must(t, v.Walk(t.Context(), "", func(Entry) error { n++; return Stop }))
	if n != 1 {
		t.Errorf("%d after Stop", n)
	}
	for path, want := range map[string]Usage{"": {7, 13}, "d": {3, 8}, "a.b": {1, 2}} {
		if got, err := v.Usage(t.Context(), path); err != nil || got != want {
			t.Errorf("%q: %+v %v", path, got, err)
		}
	}
}
