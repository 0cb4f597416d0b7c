package ref

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data/digest"
)

func TestHeads(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) func() Heads{
		"memory": func(*testing.T) func() Heads { m := &Memory{}; return func() Heads { return m } },
		"folder": func(t *testing.T) func() Heads {
			dir := t.TempDir()
			return func() Heads { // each time as another process would
				f, err := OpenFolder(dir)
				if err != nil {
					t.Fatal(err)
				}
				return f
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			keepsHeads(t, open(t))
			orders(t, open(t))
		})
	}
}

func id(n int) digest.ID { return digest.Of(fmt.Append(nil, n)) }

func keepsHeads(t *testing.T, open func() Heads) {
	t.Helper()
	ctx, main, tag := t.Context(), Name{Branch, "main"}, Name{Tag, "main"}
	swap := func(n Name, from, to digest.ID) {
		t.Helper()
		if err := open().Swap(ctx, n.Move(from, to)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := open().Get(ctx, main); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it is there: %v", err)
	}
	swap(main, digest.ID{}, id(1))
	swap(main, id(1), id(2))
	swap(tag, digest.ID{}, id(1))
	swap(Name{Branch, "a/b"}, digest.ID{}, id(3))
	for _, from := range []digest.ID{{}, id(1)} {
		var moved *MovedError
		if err := open().Swap(ctx, main.Move(from, id(9))); !errors.As(err, &moved) || moved.Found != id(2) {
			t.Errorf("from %s: %v", from.Short(), err)
		}
	}
	want := map[Name]digest.ID{main: id(2), tag: id(1), {Branch, "a/b"}: id(3)}
	got, err := open().List(ctx)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	swap(tag, id(1), digest.ID{})
	if _, err := open().Get(ctx, tag); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after it was removed: %v", err)
	}
	// All or none.
	opened := Name{Open, "main"}
	for _, moves := range [][]Move{
		{main.Move(id(2), id(4)), opened.Stays(id(1))},
		{opened.Move(digest.ID{}, id(4)), main.Stays(id(1))},
		{main.Stays(digest.ID{}), opened.Move(digest.ID{}, id(4))},
	} {
		if err := open().Swap(ctx, moves...); !errors.As(err, new(*MovedError)) {
			t.Errorf("%v: %v", moves, err)
		}
		got, err := open().List(ctx)
		if want := (map[Name]digest.ID{main: id(2), {Branch, "a/b"}: id(3)}); err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("%v left %v, %v", moves, got, err)
		}
	}
	for _, moves := range [][]Move{
		{opened.Move(digest.ID{}, id(4)), main.Stays(id(2))},
		{main.Move(id(2), id(5)), opened.Move(id(4), digest.ID{})},
		{main.Move(id(5), id(2)), opened.Stays(digest.ID{})},
	} {
		if err := open().Swap(ctx, moves...); err != nil {
			t.Errorf("%v: %v", moves, err)
		}
	}
	got, err = open().List(ctx)
	if want := (map[Name]digest.ID{main: id(2), {Branch, "a/b"}: id(3)}); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []Name{{}, {Branch, ""}, {Branch, "a//b"}, {Branch, "../x"}, {Tag, "-x"}, {Branch, "a b"}, {"head", "x"}, {Branch, "a%b"}} {
		if err := open().Swap(ctx, bad.Move(digest.ID{}, id(1))); err == nil {
			t.Errorf("%+v was taken for a name", bad)
		}
	}
}

// orders: of many who swap at once each is counted once.
func orders(t *testing.T, open func() Heads) {
	t.Helper()
	counter := Name{Branch, "counter"}
	if err := open().Swap(t.Context(), counter.Move(digest.ID{}, id(0))); err != nil {
		t.Fatal(err)
	}
	known := map[digest.ID]int{}
	for i := range 200 {
		known[id(i)] = i
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			h := open()
			for done := 0; done < 10; {
				at, err := h.Get(t.Context(), counter)
				if err != nil {
					t.Error(err)
					return
				}
				var moved *MovedError
				err = h.Swap(t.Context(), counter.Move(at, id(known[at]+1)))
				switch {
				case err == nil:
					done++
				case !errors.As(err, &moved):
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if at, err := open().Get(t.Context(), counter); err != nil || known[at] != 40 {
		t.Errorf("at %d (%v), want 40", known[at], err)
	}
}
