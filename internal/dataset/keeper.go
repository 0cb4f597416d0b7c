package dataset

import (
	"context"
	"log/slog"
	"time"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/ref"
)

const (
	// KeeperDelay is how long after everything is ready the first collection
	// begins: what waits to be started comes first.
	KeeperDelay = time.Minute
	// KeeperEvery is the time from the end of one collection to the next.
	KeeperEvery = 24 * time.Hour
	// KeeperGrace is how long after it was stored something stays that nothing
	// reaches: what was broken off goes on where it was, and what was deleted by
	// mistake comes back by its commit's name.
	KeeperGrace = 24 * time.Hour
)

// Keeper has a store collect what nothing reaches, now and then. Collect and
// Heads are required.
type Keeper struct {
	// Collect makes one pass: that of a store.
	Collect func(context.Context, data.CollectOptions) (data.CollectReport, error)
	// Heads are those of everything that is in the store.
	Heads ref.Heads
	// After is an alarm. Default: time.After.
	After func(time.Duration) <-chan time.Time
	// Collected, when set, hears of every pass.
	Collected func(data.CollectReport)
	// Log hears of passes that came to nothing. Default: nobody.
	Log *slog.Logger
}

// Run makes a pass [KeeperDelay] after ready is closed, and one a day from then
// on, until ctx ends. A pass that comes to nothing is logged, and the next one
// tries again.
func (k *Keeper) Run(ctx context.Context, ready <-chan struct{}) error {
	after := k.After
	if after == nil {
		after = time.After
	}
	select {
	case <-ctx.Done():
		return nil
	case <-ready:
	}
	for wait := KeeperDelay; ; wait = KeeperEvery {
		select {
		case <-ctx.Done():
			return nil
		case <-after(wait):
		}
		report, err := k.Collect(ctx, data.CollectOptions{Heads: []ref.Heads{k.Heads}, Grace: KeeperGrace})
		switch {
		case err == nil && k.Collected != nil:
			k.Collected(report)
		case err != nil && ctx.Err() == nil && k.Log != nil:
			k.Log.Warn("collecting data that nothing reaches", "err", err)
		}
	}
}
