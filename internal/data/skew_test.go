package data

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/data/backend"
)

// skewed is a backend whose clock is not that of this machine.
type skewed struct {
	backend.Backend
	by time.Duration
}

func (s skewed) Stat(ctx context.Context, key string) (backend.Info, error) {
	i, err := s.Backend.Stat(ctx, key)
	i.Stored = i.Stored.Add(s.by)
	return i, err
}

func (s skewed) List(ctx context.Context, prefix string, see func(backend.Info) error) error {
	return s.Backend.List(ctx, prefix, func(i backend.Info) error {
		i.Stored = i.Stored.Add(s.by)
		return see(i)
	})
}

// TestClocksThatDiffer: what is young, or pinned, stays, whatever the difference between
// this machine's clock and the backend's; what is neither goes.
func TestClocksThatDiffer(t *testing.T) {
	for _, by := range []time.Duration{-72 * time.Hour, -time.Minute, time.Minute, 72 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			p := newPlace(t)
			p.Dataset = p.open(t, skewed{p.bytes, by}, p.heads)
			id := abandoned(t, p, "x")
			if r := collect(t, p, CollectOptions{Grace: time.Hour}); r.Packs+r.Commits > 0 {
				t.Errorf("young: %+v", r)
			}
			lease, err := p.store.Pin(t.Context(), id)
			must(t, err)
			if r := collect(t, p, CollectOptions{}); r.Packs+r.Commits > 0 {
				t.Errorf("pinned: %+v", r)
			}
			put(t, p.Dataset, "main", Stream("f", strings.NewReader("kept")), AddOptions{})
			must(t, lease.Release(t.Context()))
			if r := collect(t, p, CollectOptions{}); r.Packs != 1 || r.Commits != 1 {
				t.Errorf("neither: %+v", r)
			}
			same(t, "what is kept", map[string]string{"f": "kept"}, held(t, p.Dataset, "main"))
		})
	}
}
