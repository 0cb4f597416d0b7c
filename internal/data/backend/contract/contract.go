// Package contract is what every backend of the store is held to: one suite for
// all of them. It must not know which one it is given.
package contract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/data/backend"
)

// Run holds a backend that has nothing in it yet to the contract.
func Run(t *testing.T, b backend.Backend) {
	t.Helper()
	t.Run("what is put is there", func(t *testing.T) { keeps(t, b) })
	t.Run("ranges", func(t *testing.T) { ranges(t, b) })
	t.Run("lists", func(t *testing.T) { lists(t, b) })
	t.Run("removes", func(t *testing.T) { removes(t, b) })
	t.Run("the last one stays", func(t *testing.T) { replaces(t, b) })
	t.Run("many at once", func(t *testing.T) { many(t, b) })
	t.Run("nothing is done for who is gone", func(t *testing.T) { gone(t, b) })
	t.Run("what is no key", func(t *testing.T) { strange(t, b) })
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

func keeps(t *testing.T, b backend.Backend) {
	before := time.Now()
	large := strings.Repeat("0123456789abcdef", 3<<16) // 3 MiB
	put(t, b, "keep/one", "one")
	put(t, b, "keep/empty", "")
	put(t, b, "keep/ab/large", large)
	want(t, b, "keep/one", "one")
	want(t, b, "keep/empty", "")
	want(t, b, "keep/ab/large", large)
	info, err := b.Stat(t.Context(), "keep/ab/large")
	if err != nil || info.Key != "keep/ab/large" || info.Size != 3<<20 {
		t.Errorf("%+v %v", info, err)
	}
	if info.Stored.Before(before.Add(-time.Minute)) || info.Stored.After(time.Now().Add(time.Minute)) {
		t.Errorf("stored at %v, and it is %v", info.Stored, before)
	}
	content := []byte("mine")
	if err := b.Put(t.Context(), "keep/mine", content); err != nil {
		t.Fatal(err)
	}
	content[0] = 'x' // the buffer is the caller's again
	want(t, b, "keep/mine", "mine")
}

func ranges(t *testing.T, b backend.Backend) {
	put(t, b, "range/x", "0123456789")
	for _, c := range []struct {
		at   int64
		want string
	}{{0, "0123456789"}, {0, "0"}, {3, "345"}, {9, "9"}, {4, ""}} {
		into := make([]byte, len(c.want))
		if err := b.ReadAt(t.Context(), "range/x", c.at, into); err != nil || string(into) != c.want {
			t.Errorf("%d bytes at %d: %q %v", len(c.want), c.at, into, err)
		}
	}
	for _, c := range []struct{ at, n int64 }{{0, 11}, {8, 3}, {10, 1}, {100, 1}} {
		if err := b.ReadAt(t.Context(), "range/x", c.at, make([]byte, c.n)); !errors.Is(err, backend.ErrShort) {
			t.Errorf("%d bytes at %d of 10: %v", c.n, c.at, err)
		}
	}
	if err := b.ReadAt(t.Context(), "range/none", 0, make([]byte, 1)); !errors.Is(err, fs.ErrNotExist) {
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

func removes(t *testing.T, b backend.Backend) {
	put(t, b, "remove/x", "x")
	put(t, b, "remove/y", "y")
	for range 2 { // the second finds nothing, which is fine
		if err := b.Delete(t.Context(), "remove/x"); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.Stat(t.Context(), "remove/x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("looking for what was removed: %v", err)
	}
	if err := b.ReadAt(t.Context(), "remove/x", 0, make([]byte, 1)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading what was removed: %v", err)
	}
	listed(t, b, "remove/", "remove/y 1")
	put(t, b, "remove/x", "again")
	want(t, b, "remove/x", "again")
}

func replaces(t *testing.T, b backend.Backend) {
	put(t, b, "replace/x", "a longer text than the next")
	put(t, b, "replace/x", "short")
	want(t, b, "replace/x", "short")
}

// many write and read the same keys: whoever reads sees all of one of them.
func many(t *testing.T, b backend.Backend) {
	texts := []string{strings.Repeat("a", 100_000), strings.Repeat("b", 100_000), strings.Repeat("c", 100_000)}
	put(t, b, "many/x", texts[0])
	var group sync.WaitGroup
	for _, text := range texts {
		group.Go(func() {
			for range 10 {
				if err := b.Put(t.Context(), "many/x", []byte(text)); err != nil {
					t.Error(err)
				}
			}
		})
		group.Go(func() {
			for range 10 {
				got := make([]byte, 100_000)
				if err := b.ReadAt(t.Context(), "many/x", 0, got); err != nil || !slices.Contains(texts, string(got)) {
					t.Errorf("what nobody wrote: %v, %d of a, %d of b", err, bytes.Count(got, []byte("a")), bytes.Count(got, []byte("b")))
				}
			}
		})
	}
	group.Wait()
}

func gone(t *testing.T, b backend.Backend) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Put(ctx, "gone/x", []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("stored for nobody: %v", err)
	}
	put(t, b, "gone/y", "y")
	if err := b.ReadAt(ctx, "gone/y", 0, make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("read for nobody: %v", err)
	}
	if err := b.Delete(ctx, "gone/y"); !errors.Is(err, context.Canceled) {
		t.Errorf("removed for nobody: %v", err)
	}
	listed(t, b, "gone/", "gone/y 1")
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
