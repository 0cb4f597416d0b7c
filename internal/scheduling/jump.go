package scheduling

import "github.com/muster-dev/muster/internal/scheduling/estimate"

// Shift tells that the clock was set: so much later, or earlier if it is
// negative, without that time having passed; a machine that slept counts as
// one whose clock was set. Nothing has waited or run longer by it: all that the
// core remembers moves along, and what others wrote down before with the old
// clock is read as moved. What is told later is taken as it is.
//
// Without it a clock that goes back stands still for the core, and one that
// goes forward makes everything older by as much.
func (c *Core) Shift(by estimate.Span) {
	c.tree.Shift(int64(by))
	c.budgetAt = moved(c.budgetAt, by)
	u := &c.usual
	u.newest, u.known, u.halvedAt = moved(u.newest, by), moved(u.known, by), moved(u.halvedAt, by)
	for _, list := range [][]promise{c.nominations, c.promises} {
		for i := range list {
			list[i].at = moved(list[i].at, by)
		}
	}
	for _, e := range c.entries {
		e.skew += by
		e.dueAt = e.dueAt.add(by)
		e.req.NotBefore = moved(e.req.NotBefore, by)
		e.toldAt, e.promisedAt, e.leftAt = moved(e.toldAt, by), moved(e.promisedAt, by), 0
		if e.placed {
			e.late += by
		}
		e.shiftExtras(by)
		if e.saved != 0 {
			e.after += by
		}
	}
}

// moved is an instant that lies so much later; an unknown one stays so.
func moved(t Instant, by estimate.Span) Instant {
	if t == 0 {
		return 0
	}
	return max(1, t.add(by))
}

// created is when a request was made, on the clock as it is now.
func (e *entry) created() Instant { return e.req.Created.add(e.skew) }

// began is when a placed entry began to hold what it holds, on the clock as it
// is now.
func (e *entry) began() Instant { return e.since.add(e.late) }

// shiftExtras moves when the members beyond the minimum began.
func (e *entry) shiftExtras(by estimate.Span) {
	for i := range e.held {
		if !e.held[i].extra {
			continue
		}
		if e.lates == nil {
			e.lates = map[memberKey]estimate.Span{}
		}
		e.lates[memberKey{role: e.held[i].role, index: e.held[i].index}] += by
	}
}

// extraBegan is when a member beyond the minimum began, on the clock as it is
// now.
func (e *entry) extraBegan(h *held) Instant {
	return h.since.add(e.lates[memberKey{role: h.role, index: h.index}])
}

// savedAt is when its work was last saved, on the clock as it is now; 0: not
// yet.
func (e *entry) savedAt() Instant {
	if e.saved == 0 {
		return 0
	}
	return e.saved.add(e.after)
}

// save notes when its work was last saved.
func (e *entry) save(at Instant) {
	if at != e.saved {
		e.saved, e.after = at, 0
	}
}
