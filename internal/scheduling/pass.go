package scheduling

import (
	"cmp"
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/placement"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// Decide plans every request that has room, in order, without delaying those
// that are overdue; and names what is to be evicted for others. What it plans
// is held from now on.
func (c *Core) Decide(now Instant) Result {
	var result Result
	c.tree.Advance(int64(now))
	c.relearn()
	c.heed(now)
	c.reserved.Clear()
	c.renominate(now)
	c.claim(now)
	// 0. What others were told to make room for has that room before all else.
	for i := range c.nominations {
		if e := c.nominations[i].entry; c.notNow(e, now) == nil && c.admits(e) {
			c.start(e, now, &result)
		}
	}
	// 1. Those that have waited long enough go first, as far as they may.
	// Where one finds no room, nodes are kept free for it.
	c.overdue(now)
	kept := 0
	for _, e := range c.due {
		if e.placed || c.startDue(e, now, kept, &result) || kept == c.options.Reservations {
			continue
		}
		if c.reserve(e, now, kept) {
			kept++
		}
	}
	c.promises = c.promises[:min(len(c.promises), kept)]
	// 2. The others, in order, on what is left; on nodes that are kept free
	// only if they are gone in time.
	c.pass++
	next := c.turns()
	for e := next(); e != nil; e = next() {
		if !e.placed && c.notNow(e, now) == nil && !c.hopeless(e, c.failed) && c.admits(e) {
			c.startOr(e, now, &result)
		}
	}
	// 3. Room made by replicas beyond a minimum, and by evictions.
	c.giveBack(now, &result)
	c.evictions(now, &result)
	// 4. What nobody waits for goes to those that can use more.
	c.grow(now, &result)
	return result
}

// Wake is when the next decision may differ though nothing happens: somebody's
// patience or time to wait is over, or nodes that are kept free are not any
// more. 0: never.
func (c *Core) Wake(now Instant) Instant {
	var next Instant
	earlier := func(at Instant) {
		if at > now && (next == 0 || at < next) {
			next = at
		}
	}
	for _, e := range c.waiting {
		earlier(e.dueAt)
		earlier(e.req.NotBefore)
	}
	for _, list := range [][]promise{c.nominations, c.promises} {
		for i := range list {
			earlier(list[i].at)
		}
	}
	if len(c.waiting) > 0 {
		earlier(now.add(c.options.MinRun))
	}
	for _, e := range c.running {
		if e.req.Grows {
			earlier(max(e.req.NotBefore, c.growFrom))
		}
	}
	return next
}

// startDue starts an overdue entry outside the nodes that are kept free.
func (c *Core) startDue(e *entry, now Instant, kept int, result *Result) bool {
	if !c.admits(e) || c.heldBackBy(e, now, kept) || !c.start(e, now, result) {
		return false
	}
	c.favour(e)
	return true
}

// favour counts an entry as started out of order.
func (c *Core) favour(e *entry) {
	c.favoured += e.gpus - e.favoured
	e.favoured = e.gpus
}

// favourable is the part of all GPUs, in tenths, that work which was started
// out of order may hold.
const favourable = 6

// mayFavour reports that an entry may be started out of order: what was
// started so holds at most a part of all GPUs. A cluster that has far too much
// to do would else serve the oldest alone, and all that is short would wait
// with the rest.
func (c *Core) mayFavour(gpus int64) bool {
	return gpus == 0 || gpus+c.favoured <= favourable*c.cluster.Totals().Devices*placement.Whole/10
}

// considered is a copy of the waiting, which change while they are placed.
func (c *Core) considered() []*entry {
	c.scratch = append(c.scratch[:0], c.waiting...)
	return c.scratch
}

// overdue collects the waiting whose patience is over and that could ever
// start: within a priority those that need whole nodes first, and the oldest
// first among them, as many as may be favoured; at least one, if nothing is
// favoured.
func (c *Core) overdue(now Instant) {
	c.due = c.due[:0]
	for _, e := range c.waiting {
		if e.dueAt <= now && c.notNow(e, now) == nil && !c.barred(e) {
			c.due = append(c.due, e)
		}
	}
	c.judge(c.due)
	c.due = slices.DeleteFunc(c.due, func(e *entry) bool { return !e.possible })
	slices.SortFunc(c.due, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.req.Priority, a.req.Priority), c.widest(a, b, now), cmp.Compare(a.created(), b.created()), a.before(b))
	})
	var gpus int64
	for i, e := range c.due {
		gpus += e.gpus
		if !c.mayFavour(gpus) && (i > 0 || c.favoured > 0) {
			c.due = c.due[:i]
			return
		}
	}
}

// notNow returns why a request is not to be planned whatever is free, or nil.
func (c *Core) notNow(e *entry, now Instant) Reason {
	reason := notNow(&e.req, now)
	if reason == nil || barred(reason) {
		// A quota that is full makes the API server refuse, too, and is named
		// with its figures.
		if over := c.overQuota(e); over != nil {
			return over
		}
	}
	return reason
}

// start places an entry outside the nodes that are kept free.
func (c *Core) start(e *entry, now Instant, result *Result) bool {
	f, ok := c.place(e, c.avoidFor(e))
	if !ok {
		return false
	}
	c.plan(f, now, result)
	return true
}

func (c *Core) plan(f *fit, now Instant, result *Result) {
	e := f.entry
	c.spend(e)
	c.usual.planned += e.gpus
	if e.req.extends != "" {
		c.planWish(f, now, result)
		return
	}
	result.Plans = append(result.Plans, Plan{
		Key: e.req.Key, UID: e.req.UID, Pod: e.req.Pod, Attempt: e.req.Attempt + 1, Members: f.keep(now),
	})
}

// startOr places an entry, on nodes that are kept free only if it will be gone
// before they are needed. One that finds no room marks its class.
func (c *Core) startOr(e *entry, now Instant, result *Result) {
	if c.heldBack(e, now) {
		return
	}
	if !c.hopeless(e, c.outside) {
		if c.start(e, now, result) {
			return
		}
		c.outside = c.fail(e, c.outside)
	}
	if c.reserved.Len() == 0 {
		c.failed = c.fail(e, c.failed)
		return
	}
	avoid, some := c.closedTo(e, now)
	if !some {
		return
	}
	if f, ok := c.place(e, avoid); ok {
		c.plan(f, now, result)
	} else if avoid.Len() == 0 {
		c.failed = c.fail(e, c.failed)
	}
}

// closedTo are the nodes that are kept free for others than an entry and that
// it may not use meanwhile, and whether there are others that it may: those of
// a promise to one that is less important, or before whose time it is likely
// to have ended.
func (c *Core) closedTo(e *entry, now Instant) (closed *placement.NodeSet, some bool) {
	closed = &placement.NodeSet{}
	for i := range c.nominations {
		if p := &c.nominations[i]; p.entry != e {
			p.into(closed)
		}
	}
	for i := range c.promises {
		p := &c.promises[i]
		if p.entry == e || p.entry.req.Priority < e.req.Priority || c.inTime(e, p, now) {
			some = true
		} else {
			p.into(closed)
		}
	}
	return closed, some
}

// inTime reports that an entry is likely to have ended before the time of a
// promise that was not broken too often.
func (c *Core) inTime(e *entry, p *promise, now Instant) bool {
	return p.entry.missed < patient && now.add(e.estimate.Quantile(e.req.Ran, likely)) <= min(p.at, p.entry.promisedAt)
}

// patient is how many promises to an entry may be broken before its nodes are
// kept free from everything: what was expected to be gone in time was not.
const patient = 3

// heldBack reports that an entry would take what another, to which room is
// promised, needs of the limit of a queue that both are in.
func (c *Core) heldBack(e *entry, now Instant) bool { return c.heldBackBy(e, now, len(c.promises)) }

// heldBackBy is heldBack by the first so many promises: others are not made
// yet.
func (c *Core) heldBackBy(e *entry, now Instant, promises int) bool {
	for i := range c.nominations {
		if p := &c.nominations[i]; p.entry != e && c.within(e, p.limits) {
			return true
		}
	}
	for i := range c.promises[:min(promises, len(c.promises))] {
		p := &c.promises[i]
		if p.entry != e && p.entry.req.Priority >= e.req.Priority && c.within(e, p.limits) && !c.inTime(e, p, now) {
			return true
		}
	}
	return false
}

// within reports that what an entry asks for counts against one of the limits.
func (c *Core) within(e *entry, limits []queue.Block) bool {
	return slices.ContainsFunc(limits, func(b queue.Block) bool {
		at := e.queue
		for at != b.Queue && at != queue.Root {
			at = c.tree.Parent(at)
		}
		return at == b.Queue && e.ask[b.Class] > 0
	})
}

// likely is the probability with which work is taken to have ended when it is
// asked whether it delays another.
const likely = 0.75

// fail remembers that entries like this one, of one role, find no room in this
// pass. It is not so if only its queue was in the way, or it alone may use
// some of the nodes.
func (c *Core) fail(e *entry, list []failure) []failure {
	if !e.simple() || c.shunners > 0 || c.denied || len(c.nominations) > 0 && c.nominated(e) {
		return list
	}
	k, n := int(e.asks[0]), members(&e.req.Roles[0])
	for k >= len(list) {
		list = append(list, failure{})
	}
	if f := &list[k]; f.pass != c.pass || n < f.members {
		*f = failure{pass: c.pass, members: n}
	}
	return list
}

// failure is the fewest members of a class that found no room in a pass.
type failure struct {
	pass    uint32
	members int64
}

// hopeless reports that an entry like this one found no room in this pass.
func (c *Core) hopeless(e *entry, list []failure) bool {
	if e.gpus > 0 && c.cluster.Totals().FreeMilli == 0 {
		return true
	}
	if !e.simple() || c.shunners > 0 {
		return false
	}
	k := int(e.asks[0])
	return k < len(list) && list[k].pass == c.pass && list[k].members <= members(&e.req.Roles[0])
}

// simple reports that an entry is of one role, without ports of the node, and
// that nothing is said of where its members are to be, together or apart.
func (e *entry) simple() bool {
	return len(e.asks) == 1 && len(e.req.Roles[0].FixedPorts) == 0 && e.req.anywhere()
}

// promise is a set of nodes that are kept free for an entry.
type promise struct {
	entry *entry
	at    Instant
	nodes []placement.NodeID
	valid bool
	// limits are those of its queue, and of queues above, that are in its way.
	limits []queue.Block
}

func (p *promise) into(set *placement.NodeSet) {
	for _, id := range p.nodes {
		set.Add(id)
	}
}

// broken notes that what is held on a node changed, so that a promise that
// counts on it is worked out again.
func (c *Core) broken(s *site) {
	for i := range c.promises {
		if slices.Contains(c.promises[i].nodes, s.id) {
			c.promises[i].valid = false
		}
	}
}

// reserve keeps nodes free for an entry, as the promise with this number: those
// on which it would have room first, if everything ended when it is expected
// to. A promise stands until something on its nodes changes or its time comes.
func (c *Core) reserve(e *entry, now Instant, number int) bool {
	if number < len(c.promises) {
		p := &c.promises[number]
		if p.entry == e && p.valid && p.at > now {
			p.limits = c.inTheWay(e)
			p.into(c.reserved)
			return true
		}
		if p.entry == e && e.missed >= patient && c.insist(p, now) {
			p.into(c.reserved)
			return true
		}
		c.promises = c.promises[:number]
	}
	p, ok := c.promise(e, now)
	if !ok {
		return false
	}
	switch {
	case e.promisedAt == 0:
		e.promisedAt = p.at
	case e.promisedAt <= now:
		e.promisedAt = p.at
		e.missed++
	}
	c.promises = append(c.promises, p)
	p.into(c.reserved)
	return true
}

// insist keeps the nodes of a promise that was not kept, if they will do once
// what is there has ended: else they would be lost as soon as others seem to be
// free a little earlier, and so on for ever.
func (c *Core) insist(p *promise, now Instant) bool {
	rest := &placement.NodeSet{}
	for _, s := range c.sites {
		if s != nil && !slices.Contains(p.nodes, s.id) {
			rest.Add(s.id)
		}
	}
	limits := c.inTheWay(p.entry)
	defer c.lifting()()
	c.raiseExtras()
	at := now.add(estimate.Minute)
	for _, end := range c.endings(now) {
		if slices.ContainsFunc(end.entry.held, func(h held) bool { return slices.Contains(p.nodes, h.site.id) }) {
			at = end.at
		}
		c.lift(end.entry)
	}
	f, ok := c.place(p.entry, rest)
	if !ok {
		return false
	}
	f.back()
	p.at, p.valid, p.limits = at, true, limits
	return true
}

// ending is a placed entry and when it is expected to end.
type ending struct {
	entry *entry
	at    Instant
}

// promise works out where and when an entry would have room first: what runs
// is taken to end in the order of its expected ends, one after the other,
// until the entry fits; then all is put back. What replicas beyond a minimum
// hold is free for it at once.
func (c *Core) promise(e *entry, now Instant) (promise, bool) {
	ends, limits := c.endings(now), c.inTheWay(e)
	defer c.lifting()()
	c.raiseExtras()
	for i, step := 0, 1; i < len(ends); {
		upTo := min(len(ends), i+step)
		for ; i < upTo; i++ {
			c.lift(ends[i].entry)
		}
		for i < len(ends) && ends[i].at == ends[i-1].at {
			c.lift(ends[i].entry)
			i++
		}
		if c.cannotFit(e, c.reserved) {
			continue
		}
		f, ok := c.place(e, c.reserved)
		if !ok {
			continue
		}
		p := promise{entry: e, at: ends[i-1].at, valid: true, nodes: f.nodes(), limits: limits}
		f.back()
		return p, true
	}
	return promise{}, false
}

// inTheWay are the limits of an entry's queue, and of those above, that it
// waits for.
func (c *Core) inTheWay(e *entry) []queue.Block {
	if c.free4all() {
		return nil
	}
	return slices.DeleteFunc(c.tree.Blocks(e.queue, e.ask, nil), func(b queue.Block) bool { return b.Queue == queue.Root })
}

// lifting begins to give back seats and charges for a while; what it returns
// puts them back.
func (c *Core) lifting() func() {
	c.depth++
	mark, charged, ports, raised := c.cluster.Mark(), c.tree.Mark(), len(c.lifted), len(c.raised)
	return func() {
		for _, x := range c.raised[raised:] {
			x.held.up = false
			x.held.site.milli += x.held.milli()
		}
		c.raised = c.raised[:raised]
		for _, p := range c.lifted[ports:] {
			p.site.ports[p.port]++
		}
		c.lifted = c.lifted[:ports]
		c.tree.Undo(charged)
		if c.depth--; c.depth == 0 {
			c.tree.Keep()
		}
		c.cluster.Undo(mark)
	}
}

// lift gives back the seats and charges of an entry, and its ports, while
// lifting.
func (c *Core) lift(e *entry) {
	for i := range e.held {
		c.raise(e, &e.held[i])
	}
}

// raise does the same with one member, once.
func (c *Core) raise(e *entry, h *held) {
	if h.up {
		return
	}
	h.up = true
	h.site.milli -= h.milli()
	c.raised = append(c.raised, extra{e, h})
	for _, s := range h.seats {
		c.cluster.Release(s)
	}
	if !c.free4all() {
		c.tree.Refund(e.queue, e.user, h.charged)
	}
	for _, p := range h.ports {
		if h.site.ports[p]--; h.site.ports[p] <= 0 {
			delete(h.site.ports, p)
		}
		c.lifted = append(c.lifted, portOf{h.site, p})
	}
}

// judge works out which entries have room if nothing else runs. It holds for as
// long as nodes and queues stay.
func (c *Core) judge(list []*entry) {
	if !slices.ContainsFunc(list, func(e *entry) bool { return e.judged != c.version+1 }) {
		return
	}
	defer c.lifting()()
	for _, v := range c.running {
		c.lift(v)
	}
	for _, e := range list {
		if e.judged == c.version+1 {
			continue
		}
		f, ok := c.place(e, nil)
		if ok {
			f.back()
		}
		e.judged, e.possible = c.version+1, ok
	}
}

// endings are the placed entries in the order of their expected ends.
func (c *Core) endings(now Instant) []ending {
	out := make([]ending, 0, len(c.running))
	for _, e := range c.running {
		out = append(out, ending{e, now.add(max(estimate.Second, e.estimate.Quantile(e.age(now), likely)))})
	}
	slices.SortFunc(out, func(a, b ending) int { return cmp.Or(cmp.Compare(a.at, b.at), byUID(a.entry, b.entry)) })
	return out
}

// widest orders what needs at least a whole node, or has waited twice as long
// as it should, before the rest.
func (c *Core) widest(a, b *entry, now Instant) int {
	dire := func(e *entry) bool { return c.wide(e) || now.since(e.dueAt) > e.dueAt.since(e.created()) }
	return first(dire(a), dire(b))
}

// first orders what is so before what is not.
func first(wa, wb bool) int {
	switch {
	case wa == wb:
		return 0
	case wa:
		return -1
	}
	return 1
}
