package scheduling

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// shortest is the longest run time of the first length class; each further
// class is twice as long.
const shortest = estimate.Minute

// lengthClass is the class of an expected remaining run time. Within a class
// the older request goes first, so that a wrong estimate moves a request by a
// class and not to the end.
func lengthClass(d estimate.Span) int {
	return bits.Len64(uint64(max(0, d-1) / shortest))
}

// long is the expected run time from which on work that needs less than a
// node is asked for more patience.
const long = 3 * estimate.Hour

// learn works out what depends on the estimate of an entry.
func (c *Core) learn(e *entry) {
	e.estimate = c.book.Estimate(e.req.Evidence)
	e.learned, e.leftAt = c.book.Version(), 0
	left := e.estimate.Mean(e.req.Ran)
	e.length = lengthClass(left)
	e.dueAt = e.created().add(e.req.Ran + c.dueAfter(e, left))
}

// dueAfter is how long an entry waits, in all, before it may go first. Work
// that needs at least a whole node waits for the core's patience, for only
// time makes holes that large; what needs less finds holes by itself, and its
// patience grows with what it still has to run: patience x max(1, left / 3 h).
func (c *Core) dueAfter(e *entry, left estimate.Span) estimate.Span {
	if left <= long || c.wide(e) {
		return c.options.Patience
	}
	due := float64(c.options.Patience) * float64(left) / float64(long)
	return estimate.Span(min(due, float64(math.MaxInt64/4)))
}

// wide reports that an entry needs at least as much as the largest node has.
func (c *Core) wide(e *entry) bool {
	return e.gpus >= int64(max(1, c.largest))*placement.Whole
}

// before is the order in which waiting requests are considered: the higher
// priority, then the shorter work, by class, then the older.
func (e *entry) before(o *entry) int {
	return cmp.Or(
		cmp.Compare(o.req.Priority, e.req.Priority),
		cmp.Compare(e.length, o.length),
		cmp.Compare(e.created(), o.created()),
		strings.Compare(e.req.Namespace, o.req.Namespace),
		strings.Compare(e.req.Name, o.req.Name),
		strings.Compare(e.req.UID, o.req.UID),
	)
}

// insert puts an entry among the waiting.
func (c *Core) insert(e *entry) {
	at, found := slices.BinarySearchFunc(c.waiting, e, (*entry).before)
	if !found {
		c.waiting = slices.Insert(c.waiting, at, e)
	}
}

// remove takes an entry from among the waiting, if it is there.
func (c *Core) remove(e *entry) {
	at, found := slices.BinarySearchFunc(c.waiting, e, (*entry).before)
	if found && c.waiting[at] == e {
		c.waiting = slices.Delete(c.waiting, at, at+1)
	}
}

// stale is after how many observations estimates are made again.
const stale = 256

// relearn makes the estimates again that are out of date, and puts the
// waiting in order by them.
func (c *Core) relearn() {
	moved := false
	for _, e := range c.waiting {
		if c.book.Version()-e.learned >= stale {
			c.learn(e)
			moved = true
		}
	}
	if moved {
		slices.SortFunc(c.waiting, (*entry).before)
	}
}

// remaining is the expected remaining run time of a placed entry.
func (c *Core) remaining(e *entry, now Instant) estimate.Span {
	return e.estimate.Mean(e.age(now))
}

// age is for how long an entry has run, in all its attempts.
func (e *entry) age(now Instant) estimate.Span {
	if !e.placed {
		return e.req.Ran
	}
	return e.req.Ran + now.since(e.began())
}

// waited is for how long an entry has waited, in all.
func (e *entry) waited(now Instant) estimate.Span {
	return max(0, now.since(e.created())-e.req.Ran)
}
