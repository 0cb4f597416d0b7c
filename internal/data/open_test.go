package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/ref"
)

// putOpen puts one file into the open commit of main, and says what the change went to.
func putOpen(ctx context.Context, d *Dataset, path, text string) (ref.Kind, error) {
	s, err := d.Begin(ctx, "main", SessionOptions{Open: true})
	if err != nil {
		return "", err
	}
	defer func() { _ = s.Close(context.WithoutCancel(ctx)) }()
	if err := s.Add(ctx, Stream(path, strings.NewReader(text)), AddOptions{}); err != nil {
		return "", err
	}
	_, err = s.Commit(ctx, CommitOptions{Author: "ada"})
	return s.Target().Kind, err
}

// removeOpen removes one file from the open commit of main.
func removeOpen(ctx context.Context, d *Dataset, path string) (ref.Kind, error) {
	s, err := d.Begin(ctx, "main", SessionOptions{Open: true})
	if err != nil {
		return "", err
	}
	defer func() { _ = s.Close(context.WithoutCancel(ctx)) }()
	if _, err := s.Remove(ctx, path); err != nil {
		return "", err
	}
	_, err = s.Commit(ctx, CommitOptions{Author: "ada"})
	return s.Target().Kind, err
}

func mustPutOpen(t *testing.T, d *Dataset, path, text string, want ref.Kind) {
	t.Helper()
	if kind, err := putOpen(t.Context(), d, path, text); err != nil || kind != want {
		t.Fatalf("putting %s: to %q (%v), want %q", path, kind, err, want)
	}
}

// opened is what the open commit of main holds.
func opened(t *testing.T, p *place, d *Dataset) map[string]string {
	t.Helper()
	id, err := p.heads.Get(t.Context(), ref.Name{Kind: ref.Open, Name: "main"})
	if err != nil {
		t.Fatal(err)
	}
	return held(t, d, id.String())
}

func logOf(t *testing.T, d *Dataset, reference string) (messages []string) {
	t.Helper()
	must(t, d.Log(t.Context(), reference, func(c commit.Commit) error {
		messages = append(messages, c.Message)
		return nil
	}))
	return messages
}

// TestOpenCommit: what is put into an open commit is in the branch once it is closed, as
// one commit; before that nobody sees it there.
func TestOpenCommit(t *testing.T) {
	for name, before := range map[string]map[string]string{"first": nil, "later": {"a": "old", "z": "z"}} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			for path, text := range before {
				put(t, p.Dataset, "main", Stream(path, strings.NewReader(text)), AddOptions{})
			}
			mustPutOpen(t, p.Dataset, "early", "1", ref.Branch)
			if _, err := p.OpenCommit(t.Context(), "main", "ada"); err != nil {
				t.Fatal(err)
			}
			before := held(t, p.Dataset, "main")
			_, err := p.OpenCommit(t.Context(), "main", "bob")
			if _, moved := errors.AsType[*ref.MovedError](err); !moved {
				t.Errorf("opened twice: %v", err)
			}
			want := maps.Clone(before)
			for i := range 20 {
				path := fmt.Sprint("new/", i)
				mustPutOpen(t, p.Dataset, path, path, ref.Open)
				want[path] = path
			}
			mustPutOpen(t, p.Dataset, "a", "new", ref.Open)
			want["a"] = "new"
			same(t, "the branch", before, held(t, p.Dataset, "main"))
			same(t, "the open commit", want, opened(t, p, p.Dataset))
			sound(t, p)
			commits := len(logOf(t, p.Dataset, "main"))
			r, err := p.CloseCommit(t.Context(), CloseOptions{Branch: "main", Author: "ada", Message: "all of it"})
			if err != nil || r.Unchanged {
				t.Fatal(r, err)
			}
			same(t, "closed", want, held(t, p.Dataset, "main"))
			if log := logOf(t, p.Dataset, "main"); len(log) != commits+1 || log[0] != "all of it" {
				t.Errorf("%d commits before, now %q", commits, log)
			}
			sound(t, p)
			mustPutOpen(t, p.Dataset, "late", "1", ref.Branch)
			if _, err := p.CloseCommit(t.Context(), CloseOptions{Branch: "main"}); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("closed twice: %v", err)
			}
		})
	}
}

// TestOpenCommitOfNothing: nothing was put, or it was taken back.
func TestOpenCommitOfNothing(t *testing.T) {
	p := newPlace(t)
	open := func() {
		t.Helper()
		if _, err := p.OpenCommit(t.Context(), "main", "ada"); err != nil {
			t.Fatal(err)
		}
	}
	end := func(unchanged bool) {
		t.Helper()
		r, err := p.CloseCommit(t.Context(), CloseOptions{Branch: "main", Message: "m"})
		if err != nil || r.Unchanged != unchanged {
			t.Errorf("%+v %v", r, err)
		}
		if n := len(p.headsOf(t, ref.Open)); n > 0 {
			t.Errorf("%d are open", n)
		}
	}
	open()
	end(true)
	if n := len(p.headsOf(t, ref.Branch)); n > 0 {
		t.Errorf("nothing was put, and there are %d branches", n)
	}
	open()
	mustPutOpen(t, p.Dataset, "a", "1", ref.Open)
	end(false)
	open()
	mustPutOpen(t, p.Dataset, "a", "2", ref.Open)
	mustPutOpen(t, p.Dataset, "a", "1", ref.Open)
	end(true)
	open()
	mustPutOpen(t, p.Dataset, "b", "2", ref.Open)
	if _, err := p.DiscardCommit(t.Context(), "main"); err != nil {
		t.Error(err)
	}
	if _, err := p.DiscardCommit(t.Context(), "main"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("discarded twice: %v", err)
	}
	same(t, "discarded", map[string]string{"a": "1"}, held(t, p.Dataset, "main"))
	sound(t, p)
}

func (p *place) headsOf(t *testing.T, kind ref.Kind) (found []ref.Name) {
	t.Helper()
	all, err := p.heads.List(t.Context())
	must(t, err)
	for name := range all {
		if name.Kind == kind {
			found = append(found, name)
		}
	}
	return found
}

// TestOpenCommitWithOthers: the branch moves while a commit of it is open.
func TestOpenCommitWithOthers(t *testing.T) {
	p := newPlace(t)
	put(t, p.Dataset, "main", Stream("a", strings.NewReader("1")), AddOptions{})
	if _, err := p.OpenCommit(t.Context(), "main", "ada"); err != nil {
		t.Fatal(err)
	}
	mustPutOpen(t, p.Dataset, "b", "open", ref.Open)
	mustPutOpen(t, p.Dataset, "both", "open", ref.Open)
	put(t, p.Dataset, "main", Stream("c", strings.NewReader("branch")), AddOptions{})
	put(t, p.Dataset, "main", Stream("both", strings.NewReader("branch")), AddOptions{})
	_, err := p.CloseCommit(t.Context(), CloseOptions{Branch: "main", Message: "m"})
	conflict, ok := errors.AsType[*ConflictError](err)
	if !ok || len(conflict.Paths) != 1 || conflict.Paths[0] != "both" {
		t.Fatalf("closed: %v", err)
	}
	mustPutOpen(t, p.Dataset, "d", "open", ref.Open) // it is open still
	r, err := p.CloseCommit(t.Context(), CloseOptions{Branch: "main", Message: "m", Prefer: PreferFrom})
	if err != nil || r.Unchanged {
		t.Fatal(r, err)
	}
	same(t, "closed", map[string]string{"a": "1", "b": "open", "both": "open", "c": "branch", "d": "open"}, held(t, p.Dataset, "main"))
	sound(t, p)
}

// TestChangeGoesOnWhereTheCommitIsClosed: a change that began in an open commit is in the
// branch where that was closed, or discarded, before the change was made.
func TestChangeGoesOnWhereTheCommitIsClosed(t *testing.T) {
	for name, end := range map[string]func(p *place) error{
		"closed": func(p *place) error {
			_, err := p.CloseCommit(t.Context(), CloseOptions{Branch: "main", Message: "m"})
			return err
		},
		"discarded": func(p *place) error { _, err := p.DiscardCommit(t.Context(), "main"); return err },
		"closed and opened again": func(p *place) error {
			_, err := p.CloseCommit(t.Context(), CloseOptions{Branch: "main", Message: "m"})
			if err == nil {
				_, err = p.OpenCommit(t.Context(), "main", "bob")
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			if _, err := p.OpenCommit(t.Context(), "main", "ada"); err != nil {
				t.Fatal(err)
			}
			mustPutOpen(t, p.Dataset, "a", "1", ref.Open)
			s, err := p.Begin(t.Context(), "main", SessionOptions{Open: true})
			must(t, err)
			must(t, s.Add(t.Context(), Stream("b", strings.NewReader("2")), AddOptions{}))
			must(t, end(p))
			asked := 0
			_, err = s.Commit(t.Context(), CommitOptions{Check: func(context.Context, *View) error { asked++; return nil }})
			if err != nil || asked < 2 {
				t.Fatal(asked, err)
			}
			want := map[string]string{"a": "1", "b": "2"}
			switch name {
			case "closed and opened again":
				same(t, "open", want, opened(t, p, p.Dataset))
				delete(want, "b")
			case "discarded":
				delete(want, "a")
			}
			same(t, name, want, held(t, p.Dataset, "main"))
			sound(t, p)
		})
	}
}

// TestDyingWhileClosing: what was put into an open commit is in the branch, all of it, or
// is open still; closing it again goes on, also where somebody puts what was put again, in
// another version.
func TestDyingWhileClosing(t *testing.T) {
	for name, moves := range map[string]bool{"the branch stays": false, "it moves": true} {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{"a": "new", "b": "2", "c": noise(1, 3000)}
			had := 1
			if moves {
				want["z"], had = "branch", 2
			}
			every(t, func(t *testing.T) *place {
				p := newPlace(t)
				put(t, p.Dataset, "main", Stream("a", strings.NewReader("old")), AddOptions{})
				_, err := p.OpenCommit(t.Context(), "main", "ada")
				must(t, err)
				mustPutOpen(t, p.Dataset, "a", "new", ref.Open)
				mustPutOpen(t, p.Dataset, "b", "1", ref.Open)
				mustPutOpen(t, p.Dataset, "c", want["c"], ref.Open)
				if moves {
					put(t, p.Dataset, "main", Stream("z", strings.NewReader("branch")), AddOptions{})
				}
				return p
			}, func(ctx context.Context, d *Dataset) error {
				_, err := d.CloseCommit(ctx, CloseOptions{Branch: "main", Message: "m"})
				return err
			}, func(t *testing.T, p *place, _ error) {
				d := p.open(t, p.bytes, p.heads)
				before, open := held(t, d, "main"), len(p.headsOf(t, ref.Open)) > 0
				if open && len(before) != had || !open && len(before) != len(want) {
					t.Errorf("open: %t, and the branch has %v", open, before)
				}
				kind, err := putOpen(t.Context(), d, "b", "2")
				must(t, err)
				if (kind == ref.Open) != open {
					t.Errorf("open: %t, and it went to %q", open, kind)
				}
				if open {
					_, err := d.CloseCommit(t.Context(), CloseOptions{Branch: "main", Message: "m"})
					must(t, err)
				}
				same(t, "closed", want, held(t, d, "main"))
				sound(t, p)
			})
		})
	}
}

// TestDyingWhileOpening: a commit is open, or none is, and what is put is there.
func TestDyingWhileOpening(t *testing.T) {
	every(t, func(t *testing.T) *place {
		p := newPlace(t)
		put(t, p.Dataset, "main", Stream("a", strings.NewReader("1")), AddOptions{})
		return p
	}, func(ctx context.Context, d *Dataset) error {
		_, err := d.OpenCommit(ctx, "main", "ada")
		return err
	}, func(t *testing.T, p *place, err error) {
		d := p.open(t, p.bytes, p.heads)
		if open := len(p.headsOf(t, ref.Open)) > 0; err == nil && !open {
			t.Error("none is open")
		}
		_, err = putOpen(t.Context(), d, "b", "2")
		must(t, err)
		if len(p.headsOf(t, ref.Open)) > 0 {
			_, err = d.CloseCommit(t.Context(), CloseOptions{Branch: "main", Message: "m"})
			must(t, err)
		}
		same(t, "closed", map[string]string{"a": "1", "b": "2"}, held(t, d, "main"))
		sound(t, p)
	})
}

// TestChangeThatBeganBeforeTheCommitWasOpened goes to the open commit, with its condition
// asked of that.
func TestChangeThatBeganBeforeTheCommitWasOpened(t *testing.T) {
	p := newPlace(t)
	put(t, p.Dataset, "main", Stream("a", strings.NewReader("1")), AddOptions{})
	s, err := p.Begin(t.Context(), "main", SessionOptions{Open: true})
	must(t, err)
	must(t, s.Add(t.Context(), Stream("b", strings.NewReader("2")), AddOptions{}))
	_, err = p.OpenCommit(t.Context(), "main", "ada")
	must(t, err)
	mustPutOpen(t, p.Dataset, "c", "3", ref.Open)
	var seen bool
	_, err = s.Commit(t.Context(), CommitOptions{Check: func(ctx context.Context, on *View) error {
		_, err := on.Stat(ctx, "c")
		seen = err == nil
		return nil
	}})
	must(t, err)
	if s.Target().Kind != ref.Open || !seen {
		t.Errorf("it went to %s; c was seen: %t", s.Target(), seen)
	}
	same(t, "the branch", map[string]string{"a": "1"}, held(t, p.Dataset, "main"))
	same(t, "the open commit", map[string]string{"a": "1", "b": "2", "c": "3"}, opened(t, p, p.Dataset))
}

// TestOpenCommitAfterTheBranchWentBack: only what was put is put on top.
func TestOpenCommitAfterTheBranchWentBack(t *testing.T) {
	p := newPlace(t)
	put(t, p.Dataset, "main", Stream("a", strings.NewReader("1")), AddOptions{})
	put(t, p.Dataset, "main", Stream("bad", strings.NewReader("2")), AddOptions{})
	_, err := p.OpenCommit(t.Context(), "main", "ada")
	must(t, err)
	mustPutOpen(t, p.Dataset, "new", "3", ref.Open)
	must(t, p.Reset(t.Context(), "main", "main~1"))
	_, err = p.CloseCommit(t.Context(), CloseOptions{Branch: "main", Message: "m"})
	must(t, err)
	same(t, "closed", map[string]string{"a": "1", "new": "3"}, held(t, p.Dataset, "main"))
	sound(t, p)
}

// TestOpeningWhileTheBranchMoves has the branch move in the very moment in which a commit is
// opened: the open commit has what was put.
func TestOpeningWhileTheBranchMoves(t *testing.T) {
	p := newPlace(t)
	d := p.open(t, p.bytes, &openingHeads{Heads: p.heads, do: func(n int) {
		if n <= 2 {
			mustPutOpen(t, p.Dataset, "a", fmt.Sprint(n), ref.Branch)
		}
	}})
	_, err := d.OpenCommit(t.Context(), "main", "ada")
	must(t, err)
	same(t, "the open commit", map[string]string{"a": "2"}, opened(t, p, p.Dataset))
	never := p.open(t, p.bytes, &openingHeads{Heads: p.heads, do: func(n int) {
		put(t, p.Dataset, "side", Stream("a", strings.NewReader(fmt.Sprint(n))), AddOptions{})
	}})
	if _, err := never.OpenCommit(t.Context(), "side", "ada"); err == nil || !strings.Contains(err.Error(), "open one when less is written") {
		t.Errorf("while somebody writes all the time: %v", err)
	}
}

// openingHeads does something whenever a commit is about to be opened.
type openingHeads struct {
	ref.Heads
	do func(opening int)
	n  int
}

func (h *openingHeads) Swap(ctx context.Context, moves ...ref.Move) error {
	if first := moves[0]; first.Name.Kind == ref.Open && first.From.IsZero() && !first.To.IsZero() {
		h.n++
		h.do(h.n)
	}
	return h.Heads.Swap(ctx, moves...)
}

// TestUnchangedIsAsked: a change by which nothing changes is made on top of what there is,
// not of what heads were heard to be.
func TestUnchangedIsAsked(t *testing.T) {
	p := newPlace(t)
	put(t, p.Dataset, "main", Stream("a", strings.NewReader("1")), AddOptions{})
	begin := func() *Session {
		t.Helper()
		s, err := p.Begin(t.Context(), "main", SessionOptions{Open: true})
		must(t, err)
		must(t, s.Add(t.Context(), Stream("a", strings.NewReader("1")), AddOptions{}))
		return s
	}
	s := begin()
	_, err := p.OpenCommit(t.Context(), "main", "ada")
	must(t, err)
	r, err := s.Commit(t.Context(), CommitOptions{})
	must(t, err)
	if !r.Unchanged || s.Target().Kind != ref.Open {
		t.Errorf("%+v, in %s", r, s.Target())
	}
}

// betweenHeads does something whenever a commit is about to be closed.
type betweenHeads struct {
	ref.Heads
	do func(closing int)
	n  int
}

func (h *betweenHeads) Swap(ctx context.Context, moves ...ref.Move) error {
	for _, move := range moves {
		if move.Name.Kind == ref.Open && move.To.IsZero() && !move.From.IsZero() {
			h.n++
			h.do(h.n)
		}
	}
	return h.Heads.Swap(ctx, moves...)
}

// TestClosingWhileOthersWrite has somebody write to the open commit, and to the branch, in
// the very moment in which it is closed, some times; and others close and discard it.
func TestClosingWhileOthersWrite(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(t *testing.T, p *place, n int)
		want map[string]string
		err  string
	}{
		"puts and removes": {func(t *testing.T, p *place, n int) {
			if n <= 3 {
				mustPutOpen(t, p.Dataset, "late", fmt.Sprint(n), ref.Open)
			}
			if n == 4 {
				_, err := removeOpen(t.Context(), p.Dataset, "x")
				must(t, err)
			}
		}, map[string]string{"a": "1", "late": "3"}, ""},
		"the branch, too": {func(t *testing.T, p *place, n int) {
			if n <= 2 {
				mustPutOpen(t, p.Dataset, "late", fmt.Sprint(n), ref.Open)
				put(t, p.Dataset, "main", Stream("branch", strings.NewReader(fmt.Sprint(n))), AddOptions{})
			}
			if n == 3 {
				_, err := removeOpen(t.Context(), p.Dataset, "x")
				must(t, err)
			}
		}, map[string]string{"a": "1", "branch": "2", "late": "2"}, ""},
		"the branch changes the same path": {func(t *testing.T, p *place, n int) {
			if n == 1 {
				mustPutOpen(t, p.Dataset, "late", "open", ref.Open)
				put(t, p.Dataset, "main", Stream("late", strings.NewReader("branch")), AddOptions{})
			}
		}, nil, "both sides changed"},
		"somebody else closes it": {func(t *testing.T, p *place, n int) {
			if n == 1 {
				_, err := p.CloseCommit(t.Context(), CloseOptions{Branch: "main", Message: "theirs"})
				must(t, err)
			}
		}, map[string]string{"a": "1", "x": "open"}, "none is open"},
		"it is closed and opened again": {func(t *testing.T, p *place, n int) {
			if n == 1 {
				_, err := p.CloseCommit(t.Context(), CloseOptions{Branch: "main", Message: "theirs"})
				must(t, err)
				_, err = p.OpenCommit(t.Context(), "main", "bob")
				must(t, err)
				mustPutOpen(t, p.Dataset, "again", "1", ref.Open)
			}
		}, map[string]string{"a": "1", "x": "open", "again": "1"}, ""},
		"somebody discards it": {func(t *testing.T, p *place, n int) {
			if n == 1 {
				_, err := p.DiscardCommit(t.Context(), "main")
				must(t, err)
			}
		}, map[string]string{"a": "1"}, "none is open"},
		"discarded and opened again on another commit": {func(t *testing.T, p *place, n int) {
			if n == 1 {
				put(t, p.Dataset, "main", Stream("p", strings.NewReader("branch")), AddOptions{})
			}
			if n == 2 {
				_, err := p.DiscardCommit(t.Context(), "main")
				must(t, err)
				_, err = p.OpenCommit(t.Context(), "main", "bob")
				must(t, err)
				mustPutOpen(t, p.Dataset, "p", "open", ref.Open)
			}
		}, map[string]string{"a": "1", "p": "open"}, ""},
		"what both put is taken back": {func(t *testing.T, p *place, n int) {
			if n == 1 {
				put(t, p.Dataset, "main", Stream("x", strings.NewReader("open")), AddOptions{})
			}
			if n == 2 {
				_, err := removeOpen(t.Context(), p.Dataset, "x")
				must(t, err)
				mustPutOpen(t, p.Dataset, "y", "1", ref.Open)
			}
		}, map[string]string{"a": "1", "x": "open", "y": "1"}, ""},
		"the branch goes back when there is nothing to be done": {func(t *testing.T, p *place, n int) {
			if n == 1 {
				put(t, p.Dataset, "main", Stream("x", strings.NewReader("open")), AddOptions{})
			}
			if n == 2 {
				must(t, p.Reset(t.Context(), "main", "main~1"))
			}
		}, map[string]string{"a": "1", "x": "open"}, ""},
		"somebody writes each time": {func(t *testing.T, p *place, n int) {
			mustPutOpen(t, p.Dataset, "late", fmt.Sprint(n), ref.Open)
		}, map[string]string{"a": "1"}, "close it when less is written"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			put(t, p.Dataset, "main", Stream("a", strings.NewReader("1")), AddOptions{})
			_, err := p.OpenCommit(t.Context(), "main", "ada")
			must(t, err)
			mustPutOpen(t, p.Dataset, "x", "open", ref.Open)
			d := p.open(t, p.bytes, &betweenHeads{Heads: p.heads, do: func(n int) { c.do(t, p, n) }})
			_, err = d.CloseCommit(t.Context(), CloseOptions{Branch: "main", Message: "m"})
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("closed: %v, want %q", err, c.err)
			}
			if c.want != nil {
				same(t, "the branch", c.want, held(t, p.Dataset, "main"))
			}
			sound(t, p)
		})
	}
}

// TestOpenCommitsByModel: whoever opens, closes, discards, puts and removes, in whichever
// order, it is as if it were two maps.
func TestOpenCommitsByModel(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := newPlace(t)
		branch, open, isOpen := map[string]string{}, map[string]string{}, false
		opens := map[string]bool{} // paths that were put into what is open
		for step := range 40 {
			switch what := r.IntN(10); {
			case what == 0 && !isOpen:
				if _, err := p.OpenCommit(t.Context(), "main", "ada"); err != nil {
					t.Fatal(err)
				}
				open, isOpen = maps.Clone(branch), true
				clear(opens)
			case what == 1 && isOpen:
				if _, err := p.CloseCommit(t.Context(), CloseOptions{Branch: "main", Message: "m", Prefer: PreferFrom}); err != nil {
					t.Fatal(err)
				}
				for path := range opens {
					if branch[path] = open[path]; open[path] == "" {
						delete(branch, path)
					}
				}
				isOpen = false
			case what == 2 && isOpen:
				if _, err := p.DiscardCommit(t.Context(), "main"); err != nil {
					t.Fatal(err)
				}
				isOpen = false
			case what == 4 && isOpen:
				for path := range open {
					_, err := removeOpen(t.Context(), p.Dataset, path)
					must(t, err)
					delete(open, path)
					opens[path] = true
					break
				}
			case what == 3:
				path, text := fmt.Sprint("f", r.IntN(5)), fmt.Sprint(step)
				put(t, p.Dataset, "main", Stream(path, strings.NewReader(text)), AddOptions{})
				branch[path] = text
			default:
				path, text := fmt.Sprint("f", r.IntN(5)), fmt.Sprint(step)
				if isOpen {
					mustPutOpen(t, p.Dataset, path, text, ref.Open)
					open[path], opens[path] = text, true
				} else {
					mustPutOpen(t, p.Dataset, path, text, ref.Branch)
					branch[path] = text
				}
			}
			if len(branch) > 0 && len(p.headsOf(t, ref.Branch)) > 0 {
				same(t, "the branch", branch, held(t, p.Dataset, "main"))
			}
			if isOpen {
				same(t, "the open commit", open, opened(t, p, p.Dataset))
			}
			if t.Failed() {
				t.Fatalf("seed %d, step %d", seed, step)
			}
		}
		sound(t, p)
	}
}
