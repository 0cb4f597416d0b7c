package scheduling

import (
	"cmp"
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// Growth is one more replica of an elastic gang that is placed.
type Growth struct {
	Key
	// UID is the gang's UID, and Attempt the attempt that the replica joins.
	UID     string
	Attempt int32
	// Member is what the replica is given.
	Member Assignment
}

// elastic reports that a role starts with fewer members than it may have.
func (r *Role) elastic() bool { return r.Min > 0 && r.Min < r.Replicas }

// grow gives what is idle to elastic gangs that are placed, replica by replica:
// next is always the queue with the smallest share, and in it the gang with the
// fewest members.
//
// Nobody waits for what is given so: it is what is left after everything that
// waits was tried. It may lie on nodes that are promised, for a replica that is
// given back at once delays nobody; it is never what others were told to make
// room on, or what they need of a queue's limit.
func (c *Core) grow(now Instant, result *Result) {
	if now < c.growFrom {
		return
	}
	var may []*entry
	for _, e := range c.running {
		if c.mayGrow(e, now) {
			may = append(may, e)
		}
	}
	if len(may) == 0 {
		return
	}
	closed := &placement.NodeSet{}
	for i := range c.nominations {
		c.nominations[i].into(closed)
	}
	for len(may) > 0 {
		at := 0
		for i := range may {
			if c.hungrier(may[i], may[at]) < 0 {
				at = i
			}
		}
		if !c.growBy(may[at], closed, now, result) {
			may = slices.Delete(may, at, at+1)
		}
	}
}

// mayGrow reports that a placed entry may be given more now: a gang that has
// all that it is entitled to.
func (c *Core) mayGrow(e *entry, now Instant) bool {
	return e.req.Grows && e.req.NotBefore <= now && e.req.Refused == "" && e.req.Missing == "" && !e.lost && !e.leaving(now) &&
		len(e.asks) == len(e.req.Roles) && c.entries[wishOf(e.req.UID)] == nil
}

// hungrier orders elastic gangs: whose queue has the smaller share, then who
// has fewer members, then the older.
func (c *Core) hungrier(a, b *entry) int {
	return cmp.Or(c.tree.Compare(a.queue, b.queue), cmp.Compare(a.staying(), b.staying()),
		cmp.Compare(a.req.Created, b.req.Created), byUID(a, b))
}

// staying is how many members an entry has that were not ordered back.
func (e *entry) staying() int {
	n := 0
	for i := range e.held {
		if !e.held[i].leaving {
			n++
		}
	}
	return n
}

// growBy gives an entry one more replica, of the first role that has room for
// one.
func (c *Core) growBy(e *entry, closed *placement.NodeSet, now Instant, result *Result) bool {
	if c.keptBack(e) {
		return false
	}
	for i := range e.req.Roles {
		r := &e.req.Roles[i]
		if !r.elastic() {
			continue
		}
		index, ok := e.nextIndex(r)
		if !ok {
			continue
		}
		one := c.oneMore(e, i, index)
		if c.overQuota(one) != nil {
			continue
		}
		f, ok := c.place(one, closed)
		if !ok {
			continue
		}
		c.spend(one)
		result.Growths = append(result.Growths, f.extend(e, now)...)
		return true
	}
	return false
}

// keptBack reports that an entry would take what another, for which others are
// making room, needs of the limit of a queue that both are in.
func (c *Core) keptBack(e *entry) bool {
	for i := range c.nominations {
		if p := &c.nominations[i]; p.entry.req.extends != e.req.UID && c.within(e, p.limits) {
			return true
		}
	}
	return false
}

// nextIndex is the lowest index of a role that is not done, and has no place.
func (e *entry) nextIndex(r *Role) (int32, bool) {
	for index := range r.Replicas {
		if !r.done(index) && !e.has(r.Name, index) {
			return index, true
		}
	}
	return 0, false
}

// has reports that a member has a place already.
func (e *entry) has(role string, index int32) bool {
	return e.busy[memberKey{role: role, index: index}] ||
		slices.ContainsFunc(e.held, func(h held) bool { return h.role == role && h.index == index })
}

// oneMore is an entry that asks for one member of a role of another.
func (c *Core) oneMore(e *entry, role int, index int32) *entry {
	r := e.req.Roles[role]
	r.Replicas, r.Min, r.Done = index+1, 0, make([]int32, 0, index)
	for i := range index {
		r.Done = append(r.Done, i)
	}
	one := &entry{req: e.req, asks: e.asks[role : role+1], queue: e.queue, user: e.user, host: e}
	one.req.Roles = []Role{r}
	one.gpus = c.milli(&r)
	return one
}

// extend makes what was taken further replicas of an entry that is placed.
func (f *fit) extend(e *entry, now Instant) []Growth {
	c := f.core
	c.cluster.Keep(f.mark)
	var out []Growth
	for _, a := range f.assignments() {
		if !slices.ContainsFunc(f.held, func(h held) bool { return h.role == a.Role && h.index == a.Index }) {
			continue // it is done, or has a place
		}
		out = append(out, Growth{Key: e.req.Key, UID: e.req.UID, Attempt: e.attempt, Member: a})
	}
	e.unseen = true
	for _, h := range f.held {
		h.extra, h.since = true, now
		delete(e.lates, memberKey{role: h.role, index: h.index})
		c.join(e, h)
	}
	return out
}

// enter notes what the ledger knows of a member beyond the minimum.
func (c *Core) enter(e *entry, h *held, from *Holding) {
	if !from.Extra {
		return
	}
	h.extra, h.leaving, h.since, h.journal = true, from.Leaving, from.Since, from.journal
	e.extras++
	c.extras++
}
