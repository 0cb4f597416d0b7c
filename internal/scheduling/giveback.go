package scheduling

import (
	"cmp"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// GiveBack is a replica of an elastic gang, beyond its minimum, that is to make
// room for another.
type GiveBack struct {
	Key
	// UID is the gang's UID, and Attempt the attempt that the replica is of.
	UID     string
	Attempt int32
	// Role and Index name the replica, and Journal is the UID of the journal's
	// entry that holds its place.
	Role    string
	Index   int32
	Journal string
	// For is what it makes room for.
	For Key
}

// extra is a replica beyond the minimum of the gang that holds it.
type extra struct {
	entry *entry
	held  *held
}

// yieldAttempts is for how many waiting requests it is tried, in one pass, to
// give replicas back.
const yieldAttempts = 64

// giveBack looks for replicas that are to make room for what waits, first for
// the overdue, then in the order of turns: whoever waits is entitled to what is
// beyond the minimum of others. It is tried on the tables first, so that nothing
// is given back in vain, and nothing that is not needed.
func (c *Core) giveBack(now Instant, result *Result) {
	if c.extras == 0 {
		return
	}
	c.yielding = c.yielding[:0]
	tried := 0
	try := func(e *entry) {
		if e.placed || c.mustWait(e, now) || c.nominated(e) || c.barred(e) || c.heldBack(e, now) || c.hopelessEven(e) {
			return
		}
		tried++
		if c.yieldTo(e, c.avoidFor(e), now, result) {
			return
		}
		if avoid, some := c.closedTo(e, now); some && c.yieldTo(e, avoid, now, result) {
			return
		}
		if c.reserved.Len() == 0 && e.req.extends == "" {
			c.yielding = c.fail(e, c.yielding)
		}
	}
	for _, e := range c.due {
		try(e)
	}
	next := c.turns()
	for e := next(); e != nil && tried < yieldAttempts; e = next() {
		try(e)
	}
}

// mustWait reports that an entry is not to be planned whatever is given back. A
// quota that is full of what is beyond a minimum is none of it.
func (c *Core) mustWait(e *entry, now Instant) bool {
	reason := c.notNow(e, now)
	if over, is := reason.(OverQuota); is {
		return over.Asked > over.Hard
	}
	return reason != nil
}

// raisedUse is what replicas beyond a minimum count for in a quota that are
// given back for a while.
func (c *Core) raisedUse(q *quota, resource string) int64 {
	var sum int64
	for _, x := range c.raised {
		if !x.held.extra || x.entry.req.Namespace != q.Namespace {
			continue
		}
		for i := range x.entry.req.Roles {
			if r := &x.entry.req.Roles[i]; r.Name == x.held.role {
				sum += q.Of(r, resource)
			}
		}
	}
	return sum
}

// hopelessEven reports that an entry like this one found no room in this pass,
// even with what was given back.
func (c *Core) hopelessEven(e *entry) bool {
	if !e.simple() {
		return false
	}
	k := int(e.asks[0])
	return k < len(c.yielding) && c.yielding[k].pass == c.pass && c.yielding[k].members <= members(&e.req.Roles[0])
}

// yieldTo orders back what an entry needs to have room outside some nodes, and
// keeps the room for it. Where what was ordered back before suffices, nothing
// is ordered.
func (c *Core) yieldTo(e *entry, avoid *placement.NodeSet, now Instant, result *Result) bool {
	room := func() bool { return c.hasRoomOutside(e, avoid) }
	limits := c.inTheWay(e)
	gone, may := c.yielders(e)
	back, ok := c.fewestBack(gone, may, room)
	if !ok || len(gone)+len(back) == 0 {
		return false
	}
	if c.options.Instantly {
		c.order(back, e, result)
		c.giveAtOnce(back)
		f, ok := c.place(e, avoid)
		if ok {
			c.plan(f, now, result)
		}
		return ok
	}
	p := promise{entry: e, at: now.add(notice), valid: true, limits: limits}
	func() {
		defer c.lifting()()
		c.raiseAll(gone)
		c.raiseAll(back)
		if f, ok := c.place(e, avoid); ok {
			p.nodes = f.nodes()
			f.back()
		}
	}()
	c.order(back, e, result)
	c.nominate(p)
	return true
}

// hasRoomOutside reports that an entry could start outside some nodes as things
// are.
func (c *Core) hasRoomOutside(e *entry, avoid *placement.NodeSet) bool {
	if c.denied = !c.admits(e); c.denied {
		return false
	}
	f, ok := c.place(e, avoid)
	if ok {
		f.back()
	}
	return ok
}

// yielders are the replicas that were ordered back already, and those that may
// be ordered back for an entry: the cheapest last, which has run the shortest
// since it was added. One that is not known to be journalled cannot be given
// back yet.
func (c *Core) yielders(wants *entry) (gone, may []extra) {
	for _, x := range c.beyond() {
		switch {
		case x.held.leaving:
			gone = append(gone, x)
		case x.entry.req.UID != wants.req.extends && (x.held.journal != "" || c.options.Instantly):
			may = append(may, x)
		}
	}
	slices.SortFunc(may, func(a, b extra) int { return cmp.Or(olderFirst(a, b), byUID(a.entry, b.entry)) })
	return gone, may
}

// olderFirst orders replicas by when they were added.
func olderFirst(a, b extra) int {
	return cmp.Or(cmp.Compare(a.entry.extraBegan(a.held), b.entry.extraBegan(b.held)), cmp.Compare(a.held.index, b.held.index), strings.Compare(a.held.role, b.held.role))
}

// beyond are the replicas that leave, and those that are more than the minimum
// of their role, or than it has left to do: of each role the youngest.
func (c *Core) beyond() []extra {
	if c.extras == 0 {
		return nil
	}
	var out []extra
	for _, e := range c.running {
		if e.extras > 0 {
			out = e.beyond(out)
		}
	}
	return out
}

func (e *entry) beyond(out []extra) []extra {
	var added []extra
	for i := range e.held {
		switch h := &e.held[i]; {
		case !h.extra:
		case h.leaving:
			out = append(out, extra{e, h})
		default:
			added = append(added, extra{e, h})
		}
	}
	slices.SortFunc(added, func(a, b extra) int { return olderFirst(b, a) })
	for i := range e.req.Roles {
		r := &e.req.Roles[i]
		surplus := -members(r)
		for k := range e.held {
			if e.held[k].role == r.Name && !e.held[k].leaving {
				surplus++
			}
		}
		for _, x := range added {
			if x.held.role == r.Name && surplus > 0 {
				out = append(out, x)
				surplus--
			}
		}
	}
	return out
}

// fewestBack finds which replicas have to go so that there is room, given those
// that go anyway, and of those none without which there is room as well. False:
// all together do not suffice.
func (c *Core) fewestBack(gone, may []extra, room func() bool) ([]extra, bool) {
	enough, ok := c.enoughBack(gone, may, room)
	if !ok {
		return nil, false
	}
	defer c.lifting()()
	c.raiseAll(gone)
	return thin(c, enough, room, c.raiseAll), true
}

// enoughBack takes the cheapest, and twice as many again and again until there
// is room.
func (c *Core) enoughBack(gone, may []extra, room func() bool) ([]extra, bool) {
	defer c.lifting()()
	c.raiseAll(gone)
	enough, from := room(), len(may)
	for n := 1; !enough && from > 0; n *= 2 {
		to := from
		from = max(0, len(may)-n)
		c.raiseAll(may[from:to])
		enough = room()
	}
	return may[from:], enough
}

// order says that replicas are to be given back.
func (c *Core) order(back []extra, to *entry, result *Result) {
	for _, x := range back {
		result.GiveBacks = append(result.GiveBacks, GiveBack{
			Key: x.entry.req.Key, UID: x.entry.req.UID, Attempt: x.entry.attempt,
			Role: x.held.role, Index: x.held.index, Journal: x.held.journal, For: to.req.Key,
		})
		x.held.leaving, x.entry.unseen = true, true
	}
}

// unordered finds orders to give back that were not written after all, and looks
// anew for room for those that they were for.
func (c *Core) unordered(e *entry, holdings []Holding) {
	for i := range e.held {
		h := &e.held[i]
		stays := func(o Holding) bool { return o.journal == h.journal && o.Extra && !o.Leaving }
		if h.leaving && slices.ContainsFunc(holdings, stays) {
			c.nominations = slices.DeleteFunc(c.nominations, func(p promise) bool { return slices.Contains(p.nodes, h.site.id) })
		}
	}
}

// giveAtOnce takes replicas away without waiting for them to end.
func (c *Core) giveAtOnce(back []extra) {
	for _, x := range back {
		c.release(x.entry, x.held)
	}
	for _, x := range back {
		x.entry.held = slices.DeleteFunc(x.entry.held, func(h held) bool { return h.seats == nil })
	}
}

func (c *Core) raiseAll(list []extra) {
	for _, x := range list {
		c.raise(x.entry, x.held)
	}
}

// raiseExtras gives back, for a while, all that is beyond a minimum.
func (c *Core) raiseExtras() { c.raiseAll(c.beyond()) }
