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
		if err := open().Swap(ctx, n, from, to); err != nil {
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
		if err := open().Swap(ctx, main, from, id(9)); !errors.As(err, &moved) || moved.Found != id(2) {
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
	for _, bad := range []Name{{}, {Branch, ""}, {Branch, "a//b"}, {Branch, "../x"}, {Tag, "-x"}, {Branch, "a b"}, {"head", "x"}, {Branch, "a%b"}} {
		if err := open().Swap(ctx, bad, digest.ID{}, id(1)); err == nil {
			t.Errorf("%+v was taken for a name", bad)
		}
	}
}

// orders: of many who swap at once each is counted once.
func orders(t *testing.T, open func() Heads) {
	t.Helper()
	counter := Name{Branch, "counter"}
	if err := open().Swap(t.Context(), counter, digest.ID{}, id(0)); err != nil {
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
				err = h.Swap(t.Context(), counter, at, id(known[at]+1))
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
