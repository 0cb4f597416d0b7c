package scheduling

import (
	"cmp"
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

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
	// noted, if set, hears of whoever begins, on what is in starts.
	noted func(*pending)
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
	begun := func() bool { return c.begun[c.target.order] }
	c.play(begun)
	if !begun() {
		return 0, false
	}
	return c.at, true
}

// play plays the scenario until somebody has seen enough, which is asked after each
// pass, or nothing ends any more.
func (c *course) play(enough func() bool) {
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
		if enough() || len(c.ends) == 0 {
			return
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
	if c.noted != nil {
		c.noted(p)
	}
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
