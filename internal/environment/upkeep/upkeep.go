package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/retention"
	"github.com/muster-dev/muster/internal/environment/source"
)

const (
	// StartDelay is how long after Muster is ready the first pass begins: what
	// waits to be started comes first.
	StartDelay = 30 * time.Second
	// Every is the time from the end of one pass to the next.
	Every = 24 * time.Hour
)

// References knows what somebody refers to.
type References interface {
	// Read returns everything that somebody refers to. An error, of whatever
	// part, means that nothing may be removed.
	Read(ctx context.Context) (retention.References, error)
}

// Options set up a [Keeper]. Store, Environments and References are required.
type Options struct {
	// Store holds the code snapshots.
	Store *source.Store
	// Environments is the folder of built environments.
	Environments string
	// References knows what is live.
	References References
	// KeepCode and KeepEnvironments are how long after its last use something
	// stays that nobody refers to. 0: for ever.
	KeepCode, KeepEnvironments time.Duration
	// Now is the clock, and After its alarm. Default: those of package time.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	// Removed, when set, hears of every pass of [Keeper.Run] that removed
	// something.
	Removed func(Report)
	// Log hears of passes that came to nothing. Default: nobody.
	Log *slog.Logger
}

// Keeper removes what may go.
type Keeper struct{ opts Options }

// Request is one pass.
type Request struct {
	// OlderThan, when set, takes the place of how long things stay, for both
	// kinds. 0: everything goes that nobody refers to and whose grace period
	// is over.
	OlderThan *time.Duration
	// DryRun finds out what would go, and removes nothing.
	DryRun bool
}

// Report is what one pass did, or would do.
type Report struct {
	Code, Environments Part
}

// Part is what one pass did to things of one kind.
type Part struct {
	retention.Outcome
	// Forever is true where things of this kind stay for ever: they were not
	// looked at.
	Forever bool
}

// Bytes is the size of everything that went.
func (r Report) Bytes() int64 { return r.Code.Bytes + r.Environments.Bytes }

// New returns a keeper; nothing is removed until it is asked to.
func New(opts Options) *Keeper {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.After == nil {
		opts.After = time.After
	}
	if opts.Removed == nil {
		opts.Removed = func(Report) {}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Keeper{opts: opts}
}

// Prune makes one pass. An error of one kind does not spare the other; the
// report says what was done all the same.
func (k *Keeper) Prune(ctx context.Context, r Request) (Report, error) {
	// 1. The clock first, so that what is reserved from here on is recent.
	now := k.opts.Now()
	report := Report{
		Code:         Part{Forever: r.OlderThan == nil && k.opts.KeepCode == 0},
		Environments: Part{Forever: r.OlderThan == nil && k.opts.KeepEnvironments == 0},
	}
	if report.Code.Forever && report.Environments.Forever {
		return report, nil
	}
	// 2. Then what is referred to. Whoever refers to something later has
	// reserved it before, and not longer ago than the grace period.
	live, err := k.opts.References.Read(ctx)
	if err != nil {
		return report, fmt.Errorf("finding out what is in use (nothing was removed): %w", err)
	}
	// 3. Then each store, by the same rule.
	rule := func(keep time.Duration) retention.Rule {
		if r.OlderThan != nil {
			keep = *r.OlderThan
		}
		return retention.Rule{Live: live, Now: now, Retention: keep, DryRun: r.DryRun}
	}
	var errs [2]error
	if !report.Code.Forever {
		report.Code.Outcome, errs[0] = k.opts.Store.Prune(ctx, rule(k.opts.KeepCode))
	}
	if !report.Environments.Forever {
		report.Environments.Outcome, errs[1] = environment.Prune(ctx, k.opts.Environments, rule(k.opts.KeepEnvironments))
	}
	return report, errors.Join(errs[:]...)
}

// Run makes a pass [StartDelay] after ready is closed, and one a day from then
// on, until ctx ends. A pass that comes to nothing is logged, and the next one
// tries again.
func (k *Keeper) Run(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return nil
	case <-ready:
	}
	for wait := StartDelay; ; wait = Every {
		select {
		case <-ctx.Done():
			return nil
		case <-k.opts.After(wait):
		}
		report, err := k.Prune(ctx, Request{})
		if err != nil && ctx.Err() == nil {
			k.opts.Log.Warn("removing code and environments that nobody uses", "err", err)
		}
		if report.Bytes() > 0 {
			k.opts.Removed(report)
		}
	}
}
