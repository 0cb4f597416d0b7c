// Package contract is what every backend of the store is held to: one suite for
// all of them. It must not know which one it is given.
package contract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/muster-dev/muster/internal/data/backend"
)

// Names makes what a backend is tried with, for one that takes only some keys and
// contents. All of them have to be given.
type Names struct {
	// Kept makes the key of an object that stays out of a name, and Changed that of
	// one that is put anew and removed.
	Kept, Changed func(name string) string
	// Text makes the content of an object that changes out of a text: longer where
	// that is longer, and another where that is another.
	Text func(text string) string
}

// anything is for backends that take whatever is a key.
func anything() Names {
	same := func(s string) string { return s }
	return Names{Kept: same, Changed: same, Text: same}
}

// Run holds a backend that has nothing in it yet to the contract.
func Run(t *testing.T, b backend.Backend) {
	t.Helper()
	RunNames(t, b, anything())
	t.Run("lists", func(t *testing.T) { lists(t, b) })
}

// RunNames holds a backend to what the contract says of objects that it takes.
func RunNames(t *testing.T, b backend.Backend, n Names) {
	t.Helper()
	t.Run("what is put is there", func(t *testing.T) { keeps(t, b, n) })
	t.Run("ranges", func(t *testing.T) { ranges(t, b, n) })
	t.Run("removes", func(t *testing.T) { removes(t, b, n) })
	t.Run("the last one stays", func(t *testing.T) { replaces(t, b, n) })
	t.Run("many at once", func(t *testing.T) { many(t, b, n) })
	t.Run("after something else", func(t *testing.T) { follows(t, b, n) })
	t.Run("nothing is done for who is gone", func(t *testing.T) { gone(t, b, n) })
	t.Run("what is no key", func(t *testing.T) { strange(t, b) })
}

// RunStreams holds a backend that has nothing in it yet to what it says of moving
// objects piece by piece.
func RunStreams(t *testing.T, b backend.Streamer) {
	t.Helper()
	large := strings.Repeat("0123456789abcdef", 3<<16) // 3 MiB
	if err := b.PutFrom(t.Context(), "stream/large", int64(len(large)), strings.NewReader(large+"and no more")); err != nil {
		t.Fatal(err)
	}
	want(t, b, "stream/large", large)
	if err := b.PutFrom(t.Context(), "stream/empty", 0, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	want(t, b, "stream/empty", "")
	t.Run("what breaks off", func(t *testing.T) {
		put(t, b, "stream/before", "before")
		broken := io.MultiReader(strings.NewReader("some"), iotest.ErrReader(errors.New("gone")))
		for name, from := range map[string]io.Reader{"too short": strings.NewReader("some"), "broken": broken} {
			for _, key := range []string{"stream/none", "stream/before"} {
				if err := b.PutFrom(t.Context(), key, 10, from); err == nil {
					t.Errorf("%s: %s was stored", name, key)
				}
			}
		}
		if _, err := b.Stat(t.Context(), "stream/none"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a part of an object is there: %v", err)
		}
		want(t, b, "stream/before", "before")
	})
	t.Run("parts", func(t *testing.T) { parts(t, b, large) })
}

// RunStarts holds a backend that has nothing in it yet to what it says of objects that
// it is given before all of them is there.
func RunStarts(t *testing.T, b backend.Starter) {
	t.Helper()
	content := []byte(strings.Repeat("0123456789abcdef", 1<<16)) // 1 MiB
	none := func(t *testing.T, key string) {
		t.Helper()
		if _, err := b.Stat(t.Context(), key); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", key, err)
		}
	}
	for name, begins := range map[string][]int{"by-and-by": {1, 1000, 1000, 1 << 19, 1<<19 + 1}, "all": {1 << 20}, "at-once": nil} {
		t.Run(name, func(t *testing.T) {
			key := "start/" + name
			for range 2 { // the second time in place of the first
				s := b.Start(key)
				for _, n := range begins {
					s.Grow(content[:n:n])
				}
				if err := s.Finish(t.Context(), content); err != nil {
					t.Fatal(err)
				}
				s.Drop()
				want(t, b, key, string(content))
			}
		})
	}
	t.Run("given up", func(t *testing.T) {
		s := b.Start("start/none")
		s.Grow(content[:1000])
		none(t, "start/none")
		s.Drop()
		s.Drop()
		b.Start("start/none").Drop()
		none(t, "start/none")
	})
	t.Run("whoever finishes it is gone", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, key := range []string{"start/none", "start/all"} {
			s := b.Start(key)
			s.Grow(content[:1000])
			if err := s.Finish(ctx, []byte("another")); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", key, err)
			}
		}
		none(t, "start/none")
		want(t, b, "start/all", string(content))
	})
	t.Run("what is no key", func(t *testing.T) {
		s := b.Start("../start")
		s.Grow(content[:1000])
		if err := s.Finish(t.Context(), content); err == nil {
			t.Error("it was stored")
		}
	})
}

func parts(t *testing.T, b backend.Streamer, large string) {
	for _, c := range []struct{ at, n int64 }{{0, 3 << 20}, {1 << 20, 1 << 20}, {3<<20 - 1, 1}, {7, 0}} {
		in, err := b.Open(t.Context(), "stream/large", c.at, c.n)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(in)
		if err = errors.Join(err, in.Close()); err != nil || string(got) != large[c.at:c.at+c.n] {
			t.Errorf("%d bytes at %d: %d others, %v", c.n, c.at, len(got), err)
		}
	}
	for _, c := range []struct{ at, n int64 }{{0, 3<<20 + 1}, {3 << 20, 1}, {4 << 20, 1}} {
		if _, err := b.Open(t.Context(), "stream/large", c.at, c.n); !errors.Is(err, backend.ErrShort) {
			t.Errorf("%d bytes at %d: %v", c.n, c.at, err)
		}
	}
	if _, err := b.Open(t.Context(), "stream/nothing", 0, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a part of what is not there: %v", err)
	}
}

func put(t *testing.T, b backend.Backend, key, text string) {
	t.Helper()
	if err := b.Put(t.Context(), key, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, b backend.Backend, key, text string) {
	t.Helper()
	got, err := backend.Read(t.Context(), b, key)
	if err != nil || string(got) != text {
		t.Errorf("%s: %.40q, want %.40q (%v)", key, got, text, err)
	}
}

func keeps(t *testing.T, b backend.Backend, n Names) {
	before := time.Now()
	large := strings.Repeat("0123456789abcdef", 3<<16) // 3 MiB
	put(t, b, n.Kept("keep/one"), "one")
	put(t, b, n.Kept("keep/empty"), "")
	put(t, b, n.Kept("keep/ab/large"), large)
	want(t, b, n.Kept("keep/one"), "one")
	want(t, b, n.Kept("keep/empty"), "")
	want(t, b, n.Kept("keep/ab/large"), large)
	info, err := b.Stat(t.Context(), n.Kept("keep/ab/large"))
	if err != nil || info.Key != n.Kept("keep/ab/large") || info.Size != 3<<20 {
		t.Errorf("%+v %v", info, err)
	}
	if info.Stored.Before(before.Add(-time.Minute)) || info.Stored.After(time.Now().Add(time.Minute)) {
		t.Errorf("stored at %v, and it is %v", info.Stored, before)
	}
	content := []byte("mine")
	if err := b.Put(t.Context(), n.Kept("keep/mine"), content); err != nil {
		t.Fatal(err)
	}
	content[0] = 'x' // the buffer is the caller's again
	want(t, b, n.Kept("keep/mine"), "mine")
}

func ranges(t *testing.T, b backend.Backend, n Names) {
	put(t, b, n.Kept("range/x"), "0123456789")
	for _, c := range []struct {
		at   int64
		want string
	}{{0, "0123456789"}, {0, "0"}, {3, "345"}, {9, "9"}, {4, ""}} {
		into := make([]byte, len(c.want))
		if err := b.ReadAt(t.Context(), n.Kept("range/x"), c.at, into); err != nil || string(into) != c.want {
			t.Errorf("%d bytes at %d: %q %v", len(c.want), c.at, into, err)
		}
	}
	for _, c := range []struct{ at, n int64 }{{0, 11}, {8, 3}, {10, 1}, {100, 1}} {
		if err := b.ReadAt(t.Context(), n.Kept("range/x"), c.at, make([]byte, c.n)); !errors.Is(err, backend.ErrShort) {
			t.Errorf("%d bytes at %d of 10: %v", c.n, c.at, err)
		}
	}
	if err := b.ReadAt(t.Context(), n.Kept("range/none"), 0, make([]byte, 1)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading what is not there: %v", err)
	}
}

func listed(t *testing.T, b backend.Backend, prefix string, want ...string) {
	t.Helper()
	var got []string
	err := b.List(t.Context(), prefix, func(i backend.Info) error {
		if i.Stored.IsZero() {
			t.Errorf("%s: nobody knows since when it is there", i.Key)
		}
		got = append(got, fmt.Sprintf("%s %d", i.Key, i.Size))
		return nil
	})
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("below %s: %v, want %v (%v)", prefix, got, want, err)
	}
}

func lists(t *testing.T, b backend.Backend) {
	put(t, b, "list/a/1", "x")
	put(t, b, "list/a/b/2", "xx")
	put(t, b, "list/a-b/3", "xxx")
	put(t, b, "listing/4", "xxxx")
	put(t, b, "listed/gone", "x")
	if err := b.Delete(t.Context(), "listed/gone"); err != nil {
		t.Error(err)
	}
	listed(t, b, "listed/")
	listed(t, b, "list/", "list/a-b/3 3", "list/a/1 1", "list/a/b/2 2")
	listed(t, b, "list/a/", "list/a/1 1", "list/a/b/2 2")
	listed(t, b, "list/nothing/")
	stop := errors.New("enough")
	seen := 0
	if err := b.List(t.Context(), "list/", func(backend.Info) error { seen++; return stop }); !errors.Is(err, stop) || seen != 1 {
		t.Errorf("listing goes on: %d %v", seen, err)
	}
	if err := b.List(t.Context(), "list", func(backend.Info) error { return nil }); err == nil {
		t.Error("a prefix without a slash was taken")
	}
}

func removes(t *testing.T, b backend.Backend, n Names) {
	x, y := n.Changed("remove/x"), n.Changed("remove/y")
	put(t, b, x, n.Text("x"))
	put(t, b, y, n.Text("y"))
	for range 2 { // the second finds nothing, which is fine
		if err := b.Delete(t.Context(), x); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.Stat(t.Context(), x); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("looking for what was removed: %v", err)
	}
	if err := b.ReadAt(t.Context(), x, 0, make([]byte, 1)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading what was removed: %v", err)
	}
	want(t, b, y, n.Text("y"))
	put(t, b, x, n.Text("again"))
	want(t, b, x, n.Text("again"))
}

func replaces(t *testing.T, b backend.Backend, n Names) {
	put(t, b, n.Changed("replace/x"), n.Text("a longer text than the next"))
	put(t, b, n.Changed("replace/x"), n.Text("short"))
	want(t, b, n.Changed("replace/x"), n.Text("short"))
}

// follows puts what must not be seen before something else is done.
func follows(t *testing.T, b backend.Backend, n Names) {
	x, before := n.Changed("follow/x"), n.Changed("follow/before")
	err := backend.PutAfter(t.Context(), b, x, []byte(n.Text("x")), func() error {
		if _, err := b.Stat(t.Context(), x); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it is there too early: %v", err)
		}
		return b.Put(t.Context(), before, []byte(n.Text("first")))
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, b, before, n.Text("first"))
	want(t, b, x, n.Text("x"))
	failed := errors.New("not done")
	for _, key := range []string{x, n.Changed("follow/none")} {
		if err := backend.PutAfter(t.Context(), b, key, []byte(n.Text("another")), func() error { return failed }); !errors.Is(err, failed) {
			t.Errorf("what had to be there is not, and %s: %v", key, err)
		}
	}
	want(t, b, x, n.Text("x"))
	if _, err := b.Stat(t.Context(), n.Changed("follow/none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stored without what it follows: %v", err)
	}
}

// many write and read the same keys: whoever reads sees all of one of them. The texts are
// no longer than the longest lease that the door takes.
func many(t *testing.T, b backend.Backend, n Names) {
	var texts []string
	for _, letter := range []string{"a", "b", "c"} {
		texts = append(texts, n.Text(strings.Repeat(letter, 50_000)))
	}
	key := n.Changed("many/x")
	put(t, b, key, texts[0])
	var group sync.WaitGroup
	for _, text := range texts {
		group.Go(func() {
			for range 10 {
				if err := b.Put(t.Context(), key, []byte(text)); err != nil {
					t.Error(err)
				}
			}
		})
		group.Go(func() {
			for range 10 {
				got := make([]byte, len(texts[0]))
				if err := b.ReadAt(t.Context(), key, 0, got); err != nil || !slices.Contains(texts, string(got)) {
					t.Errorf("what nobody wrote: %v, %d of a, %d of b", err, bytes.Count(got, []byte("a")), bytes.Count(got, []byte("b")))
				}
			}
		})
	}
	group.Wait()
}

func gone(t *testing.T, b backend.Backend, n Names) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x, y := n.Changed("gone/x"), n.Changed("gone/y")
	if err := b.Put(ctx, x, []byte(n.Text("x"))); !errors.Is(err, context.Canceled) {
		t.Errorf("stored for nobody: %v", err)
	}
	put(t, b, y, n.Text("y"))
	if err := b.ReadAt(ctx, y, 0, make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("read for nobody: %v", err)
	}
	if err := b.Delete(ctx, y); !errors.Is(err, context.Canceled) {
		t.Errorf("removed for nobody: %v", err)
	}
	want(t, b, y, n.Text("y"))
	if _, err := b.Stat(t.Context(), x); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("looking for what nobody stored: %v", err)
	}
}

func strange(t *testing.T, b backend.Backend) {
	for _, key := range []string{"", "/etc/passwd", "../x", "a/../../x", "a//b", ".incoming/x", "a b", "a\x00"} {
		if err := b.Put(t.Context(), key, nil); err == nil {
			t.Errorf("%q was taken for a key", key)
		}
		if err := b.ReadAt(t.Context(), key, 0, make([]byte, 1)); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q was taken for a key: %v", key, err)
		}
		if err := b.Delete(t.Context(), key); err == nil {
			t.Errorf("%q was taken for a key", key)
		}
	}
}
