package stores

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/muster-dev/muster/internal/cli/prune/reference"
	"github.com/muster-dev/muster/internal/data/warehouse"
	"github.com/muster-dev/muster/internal/door/depot"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/retention"
	"github.com/muster-dev/muster/internal/environment/upkeep"
)

// References knows what the objects of each namespace, and what runs here, refer to.
type References interface {
	// ReadEach returns all of that. An error means that nothing may be removed.
	ReadEach(ctx context.Context) (reference.Each, error)
}

// Keeper removes code and environments that nothing needs. All fields but After, Removed and
// Log are required.
type Keeper struct {
	Stores     *Stores
	References References
	// Environments is the folder of built environments, and KeepEnvironments is how long
	// after its last use one stays that nothing refers to. 0: for ever.
	Environments     string
	KeepEnvironments time.Duration
	// After is an alarm. Default: [time.After].
	After func(time.Duration) <-chan time.Time
	// Removed, when set, hears of each pass that removed something.
	Removed func(Report)
	// Log hears of passes that failed. Default: nobody.
	Log *slog.Logger
}

// Report is what one pass removed.
type Report struct {
	Code         depot.Pruned
	Environments retention.Outcome
}

// Bytes is the size of everything that was removed.
func (r Report) Bytes() int64 { return r.Code.Bytes + r.Environments.Bytes }

// Prune makes one pass. An error of one kind does not keep the other.
func (k *Keeper) Prune(ctx context.Context) (r Report, err error) {
	// 1. The clock first, so that what is reserved from here on is recent.
	now := k.Stores.opts.Now()
	// 2. What is referred to. A namespace keeps its own code alone: a digest that
	// another one names keeps nothing.
	each, err := k.References.ReadEach(ctx)
	if err != nil {
		return r, fmt.Errorf("finding out what is in use (nothing was removed): %w", err)
	}
	// 3. Code, by namespace.
	var errs [3]error
	r.Code, errs[0] = k.Stores.depot.Prune(ctx, each.Has)
	// 4. Environments, and the grants of those that are gone.
	all := each.All()
	if k.KeepEnvironments > 0 {
		r.Environments, errs[1] = environment.Prune(ctx, k.Environments, retention.Rule{Live: all, Now: now, Retention: k.KeepEnvironments})
	}
	errs[2] = k.Stores.grants.sweep(k.Environments, &all)
	return r, errors.Join(errs[:]...)
}

// Run makes a pass [upkeep.StartDelay] after ready is closed, and one a day from then on,
// until ctx ends.
func (k *Keeper) Run(ctx context.Context, ready <-chan struct{}) error {
	after, log := k.After, k.Log
	if after == nil {
		after = time.After
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	select {
	case <-ctx.Done():
		return nil
	case <-ready:
	}
	for wait := upkeep.StartDelay; ; wait = upkeep.Every {
		select {
		case <-ctx.Done():
			return nil
		case <-after(wait):
		}
		report, err := k.Prune(ctx)
		if err != nil && ctx.Err() == nil {
			log.Warn("removing code and environments that nothing needs", "err", err)
		}
		if report.Bytes() > 0 && k.Removed != nil {
			k.Removed(report)
		}
	}
}

// Collected are the stores of data that a [dataset.Caretaker] may collect: all but that of a
// namespace whose datasets an upgrade has not moved yet. Nothing reaches its data until then.
type Collected struct {
	*warehouse.Warehouse
	home string
}

// Collected returns them.
func (s *Stores) Collected() Collected { return Collected{s.data, s.opts.Home} }

// Namespaces implements dataset.Stores.
func (c Collected) Namespaces(ctx context.Context) ([]string, error) {
	all, err := c.Warehouse.Namespaces(ctx)
	if err != nil {
		return nil, err
	}
	pending, err := Pending(c.home)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(name string) bool { return name == pending }), nil
}
