package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/bale"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/ref"
)

// CollectOptions say what a collection may remove.
type CollectOptions struct {
	// Heads are those of every dataset in the store: what none of them leads to, and
	// no lease pins, is removed.
	Heads []ref.Heads
	// DryRun removes nothing, and says what would go.
	DryRun bool
	// Grace is how long after it was stored an object stays whatever leads to it.
	// Default: none; leases protect what is being written.
	Grace time.Duration
	// Settle is how long the backend's lists may not show what was stored. The
	// collection waits twice as long between saying what it is about to remove and
	// removing it: until everybody who begins to write has heard of it, and until
	// everybody who began before is seen. Default: none.
	Settle time.Duration
	// KeepEnded keeps leases of processes that have ended until they run out: a Muster that has just
	// started takes the leases of the one before it again.
	KeepEnded bool
}

// CollectReport is what a collection did.
type CollectReport struct {
	// Packs, Commits and Bytes were removed, or would be.
	Packs, Commits int
	Bytes          int64
	// Waiting are objects that nothing leads to and that stay for now, since
	// somebody who still writes may refer to them.
	Waiting int
	// Kept are the packs that stay, KeptBytes how much they are.
	Kept      int
	KeptBytes int64
	// Joined are small packs that were put together with others into one object.
	Joined int
	// Held is the data that no head leads to and that stays for now; nil if there is none.
	Held *Held
}

// collection is one run of the collector.
type collection struct {
	*Store
	o       CollectOptions
	objects map[string]backend.Info // packs and commits, as they were listed
	grown   time.Time               // what was stored before is old enough to be joined
	reach   *reach
	packs   *bale.Backend
	bales   *bales
	// waiting are the objects that no head leads to and that stay for now.
	waiting map[string]bool
	report  CollectReport
}

func (s *Store) newCollection(o CollectOptions) *collection {
	return &collection{Store: s, o: o, reach: s.newReach(), packs: bale.Of(s.backend), objects: map[string]backend.Info{}}
}

// Collect removes what no head leads to and no lease pins. Killed at any moment, it
// leaves a list of what it was about to remove, which the next one goes on with.
// Any number may run at once.
func (s *Store) Collect(ctx context.Context, o CollectOptions) (CollectReport, error) {
	c := s.newCollection(o)
	if err := c.run(ctx); err != nil {
		return c.report, fmt.Errorf("collecting what nobody needs: %w", err)
	}
	return c.report, nil
}

func (c *collection) run(ctx context.Context) error {
	// 1. What time it is for the backend, and who lives.
	now, err := c.now(ctx)
	if err != nil {
		return err
	}
	live, err := c.awaitEnded(ctx, now)
	if err != nil {
		return err
	}
	// 2. What was stored before all of them, and is not reached.
	c.grown = earlier(now.Add(-c.slack), now.Add(-c.o.Grace))
	cutoff := c.grown
	for _, l := range live {
		cutoff = earlier(cutoff, l.Started.Add(-c.slack))
	}
	old, err := c.sentences(ctx)
	if err != nil {
		return err
	}
	if err := c.list(ctx); err != nil {
		return err
	}
	garbage, err := c.garbage(ctx, live, cutoff)
	if err != nil {
		return err
	}
	c.count(garbage)
	c.hold(live, now)
	if c.o.DryRun {
		for _, group := range c.groups() {
			c.report.Joined += len(group)
		}
		return nil
	}
	if len(garbage) == 0 && len(old) == 0 {
		// This path did not wait, so every list must show the holders already.
		if _, err := c.drop(ctx, cutoff.Add(-2*c.o.Settle), nil); err != nil {
			return err
		}
		return c.join(ctx, cutoff)
	}
	// 3. That is said to everybody who begins to write from now on.
	verdicts, err := c.condemn(ctx, old, garbage)
	if err != nil {
		return err
	}
	if err := wait(ctx, 2*c.o.Settle); err != nil {
		return err
	}
	// 4. Who has begun before may refer to it: their leases, what they pinned and
	// where heads are now. A writer that ended between two of these looks is seen by
	// the one or the other.
	blockers, err := c.look(ctx)
	if err != nil {
		return err
	}
	// 5. What still is not reached, and nobody may refer to, goes.
	if err := c.execute(ctx, cutoff, verdicts, blockers); err != nil {
		return err
	}
	// 6. What is small and needed lies together from now on.
	return c.join(ctx, cutoff)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// now is the backend's own time.
func (c *collection) now(ctx context.Context) (time.Time, error) {
	const key = "clock"
	if err := c.backend.Put(ctx, key, nil); err != nil {
		return time.Time{}, err
	}
	info, err := c.backend.Stat(ctx, key)
	return info.Stored, err
}

// list finds all packs and commits.
func (c *collection) list(ctx context.Context) error {
	for _, prefix := range []string{pack.Prefix, commit.Prefix} {
		err := c.backend.List(ctx, prefix, func(i backend.Info) error {
			c.objects[i.Key] = i
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// garbage is what was stored before the cutoff and is not reached from heads,
// leases, and commits that are younger.
func (c *collection) garbage(ctx context.Context, live []note, cutoff time.Time) (map[string]bool, error) {
	from, err := roots(ctx, c.o.Heads)
	if err != nil {
		return nil, err
	}
	if err := c.mark(ctx, from); err != nil {
		return nil, err
	}
	if err := c.markWaiting(ctx, live, cutoff); err != nil {
		return nil, err
	}
	if err := c.lookAtBales(ctx, cutoff); err != nil {
		return nil, err
	}
	garbage := map[string]bool{}
	for key, i := range c.objects {
		if ours(key) && i.Stored.Before(cutoff) && !c.reach.reaches(key) && !c.bales.lies(key) {
			garbage[key] = true
		}
	}
	return garbage, nil
}

// ours leaves alone what no store has put there.
func ours(key string) bool {
	_, isPack := pack.ParseKey(key)
	_, isCommit := commit.ParseKey(key)
	return isPack == nil || isCommit == nil
}

func (c *collection) mark(ctx context.Context, from map[digest.ID]bool) error {
	for id := range from {
		err := c.reach.from(ctx, id)
		if err == nil {
			continue
		}
		if gone, look := c.gone(ctx, id); look != nil || !gone {
			return errors.Join(err, look)
		}
	}
	return nil
}

// gone says that another collection is removing a commit, or has, which led to
// nothing any more, though it did when it was listed. That is looked at first: who
// removes something says so before.
func (c *collection) gone(ctx context.Context, id digest.ID) (bool, error) {
	condemned, err := c.condemned(ctx)
	if err != nil {
		return false, err
	}
	_, err = c.backend.Stat(ctx, commit.Key(id))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err == nil && !condemned[commit.Key(id)] {
		return false, nil
	}
	wanted, err := roots(ctx, c.o.Heads)
	return err == nil && !wanted[id], err
}

// count says what there is.
func (c *collection) count(garbage map[string]bool) {
	for key, i := range c.objects {
		isPack := strings.HasPrefix(key, pack.Prefix)
		switch {
		case !garbage[key] && isPack:
			c.report.Kept++
			c.report.KeptBytes += i.Size
		case garbage[key] && c.o.DryRun:
			c.removed(i)
		}
	}
}

func (c *collection) removed(i backend.Info) {
	c.report.Bytes += i.Size
	if strings.HasPrefix(i.Key, pack.Prefix) {
		c.report.Packs++
	} else {
		c.report.Commits++
	}
}

// look reads who lives and where heads are, adds it to what is reached, and is the
// leases that live.
func (c *collection) look(ctx context.Context) ([]note, error) {
	var live []note
	for range 2 {
		now, err := c.now(ctx)
		if err != nil {
			return nil, err
		}
		found, err := c.leases(ctx, now, true)
		if err != nil {
			return nil, err
		}
		live = append(live, found...)
		from, err := roots(ctx, c.o.Heads)
		if err != nil {
			return nil, err
		}
		for _, l := range found {
			for _, id := range l.Commits {
				from[id] = true
			}
		}
		if err := c.mark(ctx, from); err != nil {
			return nil, err
		}
	}
	return live, nil
}

// execute removes what is condemned, not reached, and condemned before any lease
// began. A list goes once nothing on it is left to be done, and nobody finds in a bale what
// is on it.
func (c *collection) execute(ctx context.Context, cutoff time.Time, verdicts []verdict, live []note) error {
	condemned := map[string]bool{}
	for _, v := range verdicts {
		for _, key := range v.objects {
			condemned[key] = true
		}
	}
	// Commits that were made meanwhile and that no head is at.
	young := map[digest.ID]bool{}
	err := c.backend.List(ctx, commit.Prefix, func(i backend.Info) error {
		if id, err := commit.ParseKey(i.Key); err == nil && !condemned[i.Key] {
			young[id] = true
		}
		return nil
	})
	if err == nil {
		err = c.mark(ctx, young)
	}
	if err != nil {
		return err
	}
	removed := map[string]backend.Info{}
	var done []verdict
	for _, v := range verdicts {
		heard := v.since.Add(c.slack + c.o.Settle)
		blocked := slices.ContainsFunc(live, func(l note) bool { return l.Started.Before(heard) })
		if err := c.carryOut(ctx, v, blocked, removed); err != nil {
			return err
		}
		if !blocked {
			done = append(done, v)
		}
	}
	// Before anybody may refer to what is in them again.
	remain, err := c.drop(ctx, cutoff, removed)
	if err != nil {
		return err
	}
	for key, i := range removed {
		if !remain[key] && i.Key != "" {
			c.removed(i)
		}
	}
	for _, v := range done {
		if err := c.shorten(ctx, v, remain); err != nil {
			return err
		}
	}
	return nil
}

// shorten ends a sentence that was carried out. What of it can be found in a bale is
// condemned anew, by itself: what somebody came back to is not condemned any more.
func (c *collection) shorten(ctx context.Context, v verdict, remain map[string]bool) error {
	left := map[string]bool{}
	for _, key := range v.objects {
		if remain[key] {
			left[key] = true
		}
	}
	if len(left) == len(v.objects) {
		return nil // as it is
	}
	if _, err := c.condemn(ctx, nil, left); err != nil {
		return err
	}
	return c.backend.Delete(ctx, v.key)
}

// carryOut removes what is on a list, as far as it has an object of its own. What is
// removed is noted.
func (c *collection) carryOut(ctx context.Context, v verdict, blocked bool, removed map[string]backend.Info) error {
	for _, key := range v.objects {
		switch {
		case c.reach.reaches(key):
			continue // somebody came back to it: it stays
		case blocked:
			c.report.Waiting++
			continue
		}
		if err := c.backend.Delete(ctx, key); err != nil {
			return err
		}
		if _, twice := removed[key]; !twice {
			removed[key] = c.objects[key]
		}
		delete(c.objects, key)
	}
	return nil
}
