package data

import (
	"context"
	"slices"
	"time"

	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/holder"
)

// Held is the data that no head leads to and that a collection keeps for now: a process that stores
// or reads data may refer to it, or it was stored a moment ago.
type Held struct {
	// Objects and Bytes are its amount.
	Objects int
	Bytes   int64
	// By are the leases that keep it; none if it was stored a moment ago.
	By []Holding
	// Until is the time from which a collection can remove it, if no process uses it then.
	Until time.Time
}

// Holding is a lease that a process has.
type Holding struct {
	Holder holder.Holder
	// Since is the time at which the process took it. Until is its end unless the process renews it.
	Since, Until time.Time
}

// Holdings returns the live leases of the store.
func (s *Store) Holdings(ctx context.Context) ([]Holding, error) {
	live, err := s.leases(ctx, time.Now(), true)
	return holdings(slices.DeleteFunc(live, func(n note) bool { return n.Holder.Ended() })), err
}

func holdings(live []note) []Holding {
	var all []Holding
	for _, l := range live {
		all = append(all, Holding{Holder: l.Holder, Since: l.Started, Until: l.until})
	}
	return all
}

// awaitEnded returns the live leases. If there are leases whose holder has ended, it waits until
// the API server has finished the last request of the holder, and removes them.
func (c *collection) awaitEnded(ctx context.Context, now time.Time) ([]note, error) {
	live, err := c.leases(ctx, now, true)
	ended := func(n note) bool { return n.Holder.Ended() }
	if err != nil || c.o.KeepEnded || c.o.DryRun || !slices.ContainsFunc(live, ended) {
		return slices.DeleteFunc(live, func(n note) bool { return c.o.DryRun && !c.o.KeepEnded && ended(n) }), err
	}
	if err := wait(ctx, c.lastRequest); err != nil {
		return nil, err
	}
	return c.leases(ctx, now, false)
}

// markWaiting marks the data that stays for now although no head leads to it: data that leases pin,
// and data of commits that are younger than the cutoff. It notes the objects.
func (c *collection) markWaiting(ctx context.Context, live []note, cutoff time.Time) error {
	c.waiting = map[string]bool{}
	for key := range c.objects {
		if ours(key) && !c.reach.reaches(key) {
			c.waiting[key] = true
		}
	}
	from := map[digest.ID]bool{}
	for _, l := range live {
		for _, id := range l.Commits {
			from[id] = true
		}
	}
	for key, i := range c.objects {
		if id, err := commit.ParseKey(key); err == nil && !i.Stored.Before(cutoff) {
			from[id] = true
		}
	}
	if err := c.mark(ctx, from); err != nil {
		return err
	}
	for key := range c.waiting {
		if c.objects[key].Stored.Before(cutoff) && !c.reach.reaches(key) {
			delete(c.waiting, key) // it goes
		}
	}
	return nil
}

// hold reports the data that stays for now, and the end of that time.
func (c *collection) hold(live []note, now time.Time) {
	if len(c.waiting) == 0 {
		return
	}
	h := &Held{By: holdings(live), Until: now}
	for key := range c.waiting {
		i := c.objects[key]
		h.Objects++
		h.Bytes += i.Size
		// A second more: times of file systems and of S3 are rounded.
		h.Until = later(h.Until, i.Stored.Add(c.slack+c.o.Grace+time.Second))
	}
	for _, l := range live {
		h.Until = later(h.Until, l.until)
	}
	c.report.Held = h
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
