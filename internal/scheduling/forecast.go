package scheduling

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/placement"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// In how many ways the time to come is played through, and in how many where
// there is more than a crowd of running and waiting. In each, everything ends
// at another quantile of its own estimate.
const (
	scenarios      = 9
	scenariosCrowd = 5
	crowded        = 4000
)

// outlook is the time to come, as far as one waiting entry is concerned: the
// waiting, the running and the nodes in plain counters, from which each
// scenario starts anew. The core is not changed.
type outlook struct {
	core    *Core
	now     Instant
	target  *pending
	waiting []*pending // in the order of their turns
	shapes  []shape
	running []occupant
	likely  endHeap // when the core takes the running to end
	board   board
	// mayFavour is how much work that was started out of order may hold.
	favoured int64
	most     int64
	queues   bool
	// scenarios is how many there are.
	scenarios int
	// basis is what the ends in the middle scenario are known from.
	basis estimate.Basis
}

// lot is what the members of one role ask for.
type lot struct {
	members      int
	milli        int64 // of GPUs
	cpu, memory  int64
	kind         uint64 // the bit of the nodes that take it
	largestChunk int
	apart        Level // of which no two members may be in one domain
	room         int   // its number on the board
}

// shape is a way to ask: entries of one shape find room or not together.
type shape struct {
	lots   []lot
	within Level      // of which all have to be in one domain
	line   []*pending // in order
}

// pending is a waiting entry.
type pending struct {
	entry  *entry
	shape  int
	order  int
	wide   bool
	number int // for its quantiles
	// likely is within what time the core takes it to end once it has started.
	likely estimate.Span
}

// occupant is a running entry.
type occupant struct {
	entry   *entry
	seats   []stall
	number  int
	charges []queue.Vector
	// likely is when the core takes it to have ended, where it asks whether it
	// delays another.
	likely Instant
}

// stall is what is held of one node.
type stall struct {
	node        int32
	milli       int64
	cpu, memory int64
}

// maxKinds is how many kinds of node are told apart: sets of models, labels
// and taints that waiting roles ask for.
const maxKinds = 64

// newOutlook copies what the time to come depends on.
func (c *Core) newOutlook(target *entry, now Instant) *outlook {
	o := &outlook{core: c, now: now, favoured: c.favoured, queues: !c.free4all()}
	o.most = favourable * c.cluster.Totals().Devices * placement.Whole / 10
	kinds := &kindTable{core: c, byName: map[string]uint64{}}
	shapes := map[string]int{}
	for i, e := range c.inTurn(now) {
		p := &pending{entry: e, order: i, number: i, wide: c.wide(e), likely: e.estimate.Quantile(e.req.Ran, likely)}
		lots := kinds.lots(e)
		within := Level("")
		if e.req.Topology.Required {
			within = e.req.Topology.Within
		}
		key := shapeKey(lots) + string(within)
		if o.queues {
			key += "/" + e.req.Queue
		}
		at, known := shapes[key]
		if !known {
			at = len(o.shapes)
			shapes[key] = at
			for k := range lots {
				lots[k].room = o.board.number(&lots[k])
			}
			o.shapes = append(o.shapes, shape{lots: lots, within: within})
		}
		p.shape = at
		o.shapes[at].line = append(o.shapes[at].line, p)
		o.waiting = append(o.waiting, p)
		if e == target {
			o.target = p
		}
	}
	o.scenarios = scenarios
	if len(o.waiting)+len(c.running) > crowded {
		o.scenarios = scenariosCrowd
	}
	o.board.build(c, kinds)
	if slices.ContainsFunc(o.shapes, func(s shape) bool { return s.confined() }) {
		o.board.confines = newConfines(c)
	}
	for i, e := range c.running {
		r := occupant{entry: e, number: i, likely: now.add(e.estimate.Quantile(e.age(now), likely))}
		for k := range e.held {
			h := &e.held[k]
			if h.up {
				continue
			}
			r.seats = append(r.seats, stall{node: int32(h.site.id), milli: h.milli(), cpu: h.resources.MilliCPU, memory: h.resources.Memory})
			if o.queues {
				r.charges = append(r.charges, h.charged)
			}
		}
		o.running = append(o.running, r)
		o.likely = append(o.likely, end{at: r.likely, number: i})
	}
	o.likely.order()
	return o
}

// inTurn are the waiting that could start at once if they had room, in the
// order of their turns.
func (c *Core) inTurn(now Instant) []*entry {
	var out []*entry
	next := c.turns()
	for e := next(); e != nil; e = next() {
		if c.notNow(e, now) == nil && !e.lost {
			out = append(out, e)
		}
	}
	return out
}

// kindTable numbers the kinds of nodes that roles ask for.
type kindTable struct {
	core   *Core
	byName map[string]uint64
	roles  []*Role
}

func (t *kindTable) bit(r *Role) uint64 {
	name := ruleName(r) + "\x00" + strings.ToLower(strings.Join(r.Models, "\x00"))
	if !r.wantsGPU() {
		name = ruleName(r)
	}
	if bit, ok := t.byName[name]; ok {
		return bit
	}
	at := min(len(t.roles), maxKinds-1)
	bit := uint64(1) << at
	t.byName[name] = bit
	if at == len(t.roles) {
		t.roles = append(t.roles, r)
	}
	return bit
}

func (t *kindTable) lots(e *entry) []lot {
	out := make([]lot, 0, len(e.req.Roles))
	for _, i := range largestFirst(&e.req) {
		r := &e.req.Roles[i]
		n := int(members(r))
		if n <= 0 {
			continue
		}
		apart := Level("")
		if r.Spread.Required {
			apart = r.Spread.Over
		}
		out = append(out, lot{
			apart: apart, members: n, milli: t.core.milli(r), cpu: max(0, r.Resources.MilliCPU), memory: max(0, r.Resources.Memory),
			kind: t.bit(r), largestChunk: t.core.chunk(r, n),
		})
	}
	return out
}

func shapeKey(lots []lot) string {
	var b strings.Builder
	for _, l := range lots {
		for _, v := range []int64{int64(l.members), l.milli, l.cpu, l.memory, int64(l.kind)} {
			for range 8 {
				b.WriteByte(byte(v))
				v >>= 8
			}
		}
		b.WriteString(string(l.apart))
		b.WriteByte('|')
	}
	return b.String()
}

// golden spreads numbers evenly over [0, 1).
const golden = 0.6180339887498949

// quantile is at which quantile of its estimate an entry ends in a scenario:
// over all scenarios, each entry takes each part of its distribution once.
func quantile(scenario, of, number int, salt float64) float64 {
	x := (float64(scenario)+0.5)/float64(of) + float64(float64(number+1)*golden) + salt
	return min(0.995, max(0.005, x-math.Floor(x)))
}

// starts are when the target starts, in every scenario in which it does, in
// ascending order.
func (o *outlook) starts() []Instant {
	var out []Instant
	if o.target == nil {
		return nil
	}
	for s := range o.scenarios {
		c := newCourse(o, s)
		if at, ok := c.run(); ok {
			out = append(out, at)
		}
		if s == o.scenarios/2 {
			o.basis = c.basisOf()
		}
	}
	slices.Sort(out)
	return out
}

// basisOf is what most of the ends so far are known from; the firmer of two
// that are as many.
func (c *course) basisOf() estimate.Basis {
	bases := [...]estimate.Basis{estimate.BasisProgress, estimate.BasisDeclared, estimate.BasisHistory, estimate.BasisLimit, estimate.BasisGuess}
	var count [len(bases)]int
	for i := range c.active {
		if c.gone[i] {
			count[slices.Index(bases[:], c.core.book.Basis(c.active[i].entry.req.Evidence))]++
		}
	}
	best := len(bases) - 1
	for i := len(bases) - 1; i >= 0; i-- {
		if count[i] > 0 && count[i] >= count[best] {
			best = i
		}
	}
	return bases[best]
}

// course is one scenario.
type course struct {
	*outlook
	scenario int
	at       Instant
	board    board
	ends     endHeap
	active   []occupant
	gone     []bool
	likely   endHeap // when the policy takes them to end; also those that are gone
	scratch  endHeap
	lifted   []int
	cursor   []int // by shape: the first that has not started
	begun    []bool
	heads    []*pending // those that are tried in a pass
	due      []*pending
	later    []*pending // by dueAt
	favoured int64
	favours  []int64 // by active
	kept     reservation
	starts   []stall
}

// reservation is nodes that are kept free in a scenario.
type reservation struct {
	owner *pending
	at    Instant
	nodes []int32
}

func newCourse(o *outlook, scenario int) *course {
	c := &course{outlook: o, scenario: scenario, at: o.now, board: o.board.clone(), favoured: o.favoured}
	c.cursor, c.begun = make([]int, len(o.shapes)), make([]bool, len(o.waiting))
	c.ends, c.gone, c.favours = make(endHeap, 0, 2*len(o.running)), make([]bool, len(o.running)), make([]int64, len(o.running))
	for i := range o.running {
		e := o.running[i].entry
		left := e.estimate.Quantile(e.age(o.now), quantile(scenario, o.scenarios, o.running[i].number, 0))
		c.ends = append(c.ends, end{at: o.now.add(max(estimate.Second, left)), number: i})
		c.favours[i] = e.favoured
	}
	c.ends.order()
	c.active, c.likely = slices.Clone(o.running), slices.Clone(o.likely)
	c.later = slices.Clone(o.waiting)
	slices.SortStableFunc(c.later, func(a, b *pending) int { return cmp.Compare(a.entry.dueAt, b.entry.dueAt) })
	return c
}

func (c *course) join(r occupant, ends Instant, favour int64) {
	c.ends.push(end{at: ends, number: len(c.active)})
	c.active = append(c.active, r)
	c.likely.push(end{at: r.likely, number: len(c.active) - 1})
	c.gone = append(c.gone, false)
	c.favours = append(c.favours, favour)
}

// close is what part of the time from now two moments must lie apart to be
// told apart.
const close = 200

// run plays the scenario until the target starts.
func (c *course) run() (Instant, bool) {
	if c.queues {
		mark := c.core.tree.Mark()
		defer func() {
			c.core.tree.Undo(mark)
			if mark == 0 {
				c.core.tree.Keep()
			}
		}()
	}
	for {
		c.mature()
		c.pass()
		if c.begun[c.target.order] {
			return c.at, true
		}
		if len(c.ends) == 0 {
			return 0, false
		}
		// Ends that are close together, compared with how far ahead they are,
		// count as one.
		c.at = max(c.at, c.ends[0].at)
		for until := c.at + (c.at-c.now)/close; len(c.ends) > 0 && c.ends[0].at <= until; {
			next := c.ends.pop()
			c.at = max(c.at, next.at)
			c.leave(next.number)
		}
	}
}

func (c *course) leave(i int) {
	c.gone[i] = true
	r := &c.active[i]
	for _, s := range r.seats {
		c.board.give(s)
	}
	c.favoured -= c.favours[i]
	for _, v := range r.charges {
		c.core.tree.Refund(r.entry.queue, r.entry.user, v)
	}
}

// mature moves those whose patience is over among the overdue.
func (c *course) mature() {
	n := 0
	for n < len(c.later) && c.later[n].entry.dueAt <= c.at {
		n++
	}
	if n == 0 {
		return
	}
	c.due = append(c.due, c.later[:n]...)
	c.later = c.later[n:]
	slices.SortStableFunc(c.due, func(a, b *pending) int {
		return cmp.Or(cmp.Compare(b.entry.req.Priority, a.entry.req.Priority), truth(b.wide)-truth(a.wide),
			cmp.Compare(a.entry.created(), b.entry.created()), cmp.Compare(a.order, b.order))
	})
}

// maxDue is how many of the overdue are tried in each pass of a scenario.
const maxDue = 64

// pass starts what has room, in the order in which [Core.Decide] does.
func (c *course) pass() {
	c.due = slices.DeleteFunc(c.due, func(p *pending) bool { return c.begun[p.order] })
	gpus := c.favoured
	for i, p := range c.due {
		if gpus += p.entry.gpus; i == maxDue || p.entry.gpus > 0 && gpus > c.most && (i > 0 || c.favoured > 0) {
			break
		}
		if c.kept.owner == p {
			c.board.keep(c.kept.nodes, false)
		}
		if c.place(p) {
			if c.kept.owner == p {
				c.kept = reservation{}
			}
			c.begin(p, true)
			continue
		}
		if c.kept.owner == p {
			c.board.keep(c.kept.nodes, true)
		}
		c.reserve(p)
	}
	if c.kept.owner != nil && !slices.Contains(c.due, c.kept.owner) {
		c.board.keep(c.kept.nodes, false)
		c.kept = reservation{}
	}
	c.candidates()
	for i := 0; i < len(c.heads); i++ {
		p := c.heads[i]
		if !c.admits(p) || !c.place(p) && !c.squeeze(p) {
			continue
		}
		c.begin(p, false)
		if p == c.target {
			return
		}
		if next := c.head(p.shape); next != nil && c.mayStart(next) {
			at, _ := slices.BinarySearchFunc(c.heads[i+1:], next, inOrder)
			c.heads = slices.Insert(c.heads, i+1+at, next)
		}
	}
}

func inOrder(a, b *pending) int { return cmp.Compare(a.order, b.order) }

// candidates collects the first of every shape that may have room, in order of
// their turns.
func (c *course) candidates() {
	c.board.recount()
	c.heads = c.heads[:0]
	for i := range c.shapes {
		if p := c.head(i); p != nil && c.mayStart(p) {
			c.heads = append(c.heads, p)
		}
	}
	slices.SortFunc(c.heads, inOrder)
}

// head is the first of a shape that has not started, or nil.
func (c *course) head(shape int) *pending {
	line, at := c.shapes[shape].line, c.cursor[shape]
	for at < len(line) && c.begun[line[at].order] {
		at++
	}
	c.cursor[shape] = at
	if at == len(line) {
		return nil
	}
	return line[at]
}

// mayStart says quickly that an entry has no room, as of the last count.
func (c *course) mayStart(p *pending) bool {
	return c.board.fits(c.shapes[p.shape].lots) || c.mayJoin(p)
}

// mayJoin reports that an entry is expected to be gone before nodes that are
// kept free are needed.
func (c *course) mayJoin(p *pending) bool {
	return c.kept.owner != nil && c.kept.owner != p && c.at.add(p.likely) <= c.kept.at
}

func (c *course) admits(p *pending) bool {
	if !c.queues {
		return true
	}
	_, ok := c.core.tree.Admit(p.entry.queue, p.entry.ask)
	return ok
}

// place finds room for an entry and notes it in starts.
func (c *course) place(p *pending) bool {
	if !c.admits(p) {
		return false
	}
	c.starts = c.starts[:0]
	var ok bool
	c.starts, ok = c.board.fit(&c.shapes[p.shape], c.starts)
	return ok
}

// squeeze finds room on nodes that are kept free, for what is expected to be
// gone in time.
func (c *course) squeeze(p *pending) bool {
	if !c.mayJoin(p) {
		return false
	}
	c.board.keep(c.kept.nodes, false)
	c.starts = c.starts[:0]
	var ok bool
	c.starts, ok = c.board.fit(&c.shapes[p.shape], c.starts)
	c.board.keep(c.kept.nodes, true)
	return ok
}

// begin lets an entry run on what place found.
func (c *course) begin(p *pending, favoured bool) {
	c.begun[p.order] = true
	r := occupant{entry: p.entry, seats: slices.Clone(c.starts), likely: c.at.add(p.likely)}
	run := max(estimate.Second, p.entry.estimate.Quantile(p.entry.req.Ran, quantile(c.scenario, c.scenarios, p.number, 0.37)))
	var favour int64
	if favoured {
		favour = p.entry.gpus
		c.favoured += favour
	}
	if c.queues && c.core.tree.Charge(p.entry.queue, p.entry.user, p.entry.ask) {
		r.charges = []queue.Vector{p.entry.ask}
	}
	c.join(r, c.at.add(run), favour)
}

// reserve keeps nodes free for the first of the overdue that finds no room:
// those on which it has room first if all ends when it is expected to.
func (c *course) reserve(p *pending) {
	if c.kept.owner != nil {
		if c.kept.owner != p || c.kept.at > c.at {
			return
		}
		c.board.keep(c.kept.nodes, false)
		c.kept = reservation{}
	}
	shape := &c.shapes[p.shape]
	c.scratch = append(c.scratch[:0], c.likely...)
	ends := c.scratch
	c.lifted = c.lifted[:0]
	for len(ends) > 0 {
		next := ends.pop()
		if c.gone[next.number] {
			continue
		}
		c.lifted = append(c.lifted, next.number)
		for _, s := range c.active[next.number].seats {
			c.board.give(s)
		}
		if !c.board.mayFit(shape.lots) {
			continue
		}
		seats, ok := c.board.fit(shape, nil)
		if !ok {
			continue
		}
		c.kept = reservation{owner: p, at: max(next.at, c.at+1)}
		for _, s := range seats {
			c.board.give(s)
			if !slices.Contains(c.kept.nodes, s.node) {
				c.kept.nodes = append(c.kept.nodes, s.node)
			}
		}
		break
	}
	for _, i := range c.lifted {
		for _, s := range c.active[i].seats {
			c.board.take(s)
		}
	}
	if c.kept.owner == p {
		c.board.keep(c.kept.nodes, true)
	}
}

// end is when an occupant ends.
type end struct {
	at     Instant
	number int
}

func (e end) before(o end) bool { return e.at < o.at || e.at == o.at && e.number < o.number }

// endHeap gives out ends in order.
type endHeap []end

func (h *endHeap) push(e end) {
	s := append(*h, e)
	i := len(s) - 1
	for i > 0 && s[i].before(s[(i-1)/2]) {
		s[i], s[(i-1)/2] = s[(i-1)/2], s[i]
		i = (i - 1) / 2
	}
	*h = s
}

func (h *endHeap) pop() end {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	*h = s[:last]
	h.sink(0)
	return top
}

// order makes a heap of what was appended in any order.
func (h *endHeap) order() {
	for i := len(*h)/2 - 1; i >= 0; i-- {
		h.sink(i)
	}
}

// sink moves an end down to its place.
func (h *endHeap) sink(i int) {
	s := *h
	for {
		child := 2*i + 1
		if child >= len(s) {
			return
		}
		if child+1 < len(s) && s[child+1].before(s[child]) {
			child++
		}
		if !s[child].before(s[i]) {
			return
		}
		s[i], s[child] = s[child], s[i]
		i = child
	}
}
