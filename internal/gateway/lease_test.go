package gateway

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
)

// distant is a backend that may be out of reach for writes.
type distant struct {
	backend.Memory
	away atomic.Bool
}

func (d *distant) Put(ctx context.Context, key string, content []byte) error {
	if d.away.Load() {
		return errors.New("the network is away")
	}
	return d.Memory.Put(ctx, key, content)
}

// TestALostLeaseIsReplaced: sessions after an outage do not begin under the lease that
// the outage lost.
func TestALostLeaseIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bytes := &distant{}
		store, err := data.Open(t.Context(), data.Options{Backend: bytes, LeaseTTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		l := &leases{store: store}
		take := func() *held {
			t.Helper()
			h, err := l.take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			l.give(t.Context(), h)
			return h
		}
		before := take()
		time.Sleep(2 * time.Minute)
		if take() != before {
			t.Error("a lease that stands was replaced")
		}
		bytes.away.Store(true)
		time.Sleep(2 * time.Minute)
		bytes.away.Store(false)
		time.Sleep(time.Minute)
		after := take()
		if after == before || after.Lost() || !before.Lost() {
			t.Errorf("the lease is the same: %v; the one from before is lost: %v", after == before, before.Lost())
		}
		l.close(t.Context())
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
