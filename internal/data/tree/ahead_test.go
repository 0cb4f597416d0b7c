package tree

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
)

// shared is a heap that many may ask at once, and that fails from one load on.
type shared struct {
	mu    sync.Mutex
	heap  *heap
	loads int
	fails int // 0: never
}

var errAway = errors.New("away")

func (s *shared) Load(ctx context.Context, kind pack.Kind, id digest.ID, at pack.Place) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loads++; s.fails > 0 && s.loads >= s.fails {
		return nil, errAway
	}
	return s.heap.Load(ctx, kind, id, at)
}

// TestAhead: it shows what going through one by one does, whatever the prefix and the
// width.
func TestAhead(t *testing.T) {
	h := newHeap()
	root := apply(t, h, New(h, nil), Root{}, thousands(30_000))
	var all []string
	for e, err := range New(h, nil).From(t.Context(), root, "") {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Path)
	}
	prefixes := []string{"", "nothing", "\x7f", all[0], all[len(all)-1], all[12_345], all[12_345][:1], all[20_000][:len(all[0])-2], all[29_000][:2]}
	for _, prefix := range prefixes {
		var want []string
		for _, path := range all {
			if strings.HasPrefix(path, prefix) {
				want = append(want, path)
			}
		}
		for _, width := range []int{0, 1, 3, 64} {
			s := &shared{heap: h}
			var got []string
			for e, err := range New(s, nil).Ahead(t.Context(), root, prefix, width) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e.Path)
			}
			if !slices.Equal(want, got) {
				t.Errorf("prefix %q, width %d: %s", prefix, width, cmp.Diff(want, got))
			}
			if len(want) <= 1 && s.loads > 2+3 {
				t.Errorf("prefix %q: %d nodes were read for %d entries", prefix, s.loads, len(want))
			}
		}
	}
}

// TestAheadEnds: who has seen enough, and an error, end all of it.
func TestAheadEnds(t *testing.T) {
	h := newHeap()
	root := apply(t, h, New(h, nil), Root{}, thousands(30_000))
	s := &shared{heap: h}
	for _, err := range New(s, nil).Ahead(t.Context(), root, "", 8) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if before := s.loads; before > 2+2+8 {
		t.Errorf("%d nodes were read for one entry", before)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range New(&shared{heap: h}, nil).Ahead(ctx, root, "", 8) {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("%v", last)
	}
	for fails := 1; fails < 12; fails++ {
		var last error
		for _, err := range New(&shared{heap: h, fails: fails}, nil).Ahead(t.Context(), root, "", 4) {
			last = err
		}
		if !errors.Is(last, errAway) {
			t.Errorf("load %d fails: %v", fails, last)
		}
	}
	for e, err := range New(h, nil).Ahead(t.Context(), Root{}, "", 8) {
		t.Error("an empty tree has something", e, err)
	}
}
