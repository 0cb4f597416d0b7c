package outlook

import (
	"cmp"
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// Course is one scenario.
type Course struct {
	*Outlook
	scenario int
	// At is the time in the scenario, from now on.
	At       estimate.Span
	board    board
	ends     endHeap
	active   []Occupant
	gone     []bool
	likely   endHeap // ends that the policy expects; includes ended entries
	scratch  endHeap
	lifted   []int
	cursor   []int // by shape: index of the first entry that has not started
	begun    []bool
	heads    []*Pending // candidates of a pass
	due      []*Pending
	later    []*Pending // by DueAt
	favoured int64
	favours  []int64 // by active
	kept     reservation
	// Seats are the stalls of the entry that started last.
	Seats []Stall
	// Noted, if set, is called for each entry that starts, with its stalls in Seats.
	Noted func(*Pending)
}

// reservation is a set of nodes that a scenario keeps free.
type reservation struct {
	owner *Pending
	at    estimate.Span
	nodes []int32
}

// NewCourse begins a scenario.
func NewCourse(o *Outlook, scenario int) *Course {
	c := &Course{Outlook: o, scenario: scenario, board: o.board.clone(), favoured: o.Favoured}
	c.cursor, c.begun = make([]int, len(o.shapes)), make([]bool, len(o.Waiting))
	c.ends, c.gone, c.favours = make(endHeap, 0, 2*len(o.running)), make([]bool, len(o.running)), make([]int64, len(o.running))
	for i := range o.running {
		r := &o.running[i]
		left := r.Work.Estimate.Quantile(r.Work.Ran, quantile(scenario, o.Scenarios, i, 0))
		c.ends = append(c.ends, end{at: max(estimate.Second, left), number: i})
		c.favours[i] = r.Favoured
	}
	c.ends.order()
	c.active, c.likely = slices.Clone(o.running), slices.Clone(o.likely)
	c.later = slices.Clone(o.Waiting)
	slices.SortStableFunc(c.later, func(a, b *Pending) int { return cmp.Compare(a.DueAt, b.DueAt) })
	return c
}

func (c *Course) join(r Occupant, ends estimate.Span, favour int64) {
	c.ends.push(end{at: ends, number: len(c.active)})
	c.active = append(c.active, r)
	c.likely.push(end{at: r.Likely, number: len(c.active) - 1})
	c.gone = append(c.gone, false)
	c.favours = append(c.favours, favour)
}

// close is the resolution of time: two ends count as one if they lie closer together
// than this fraction (1/close) of the time from now.
const close = 200

// run simulates the scenario until the target starts.
func (c *Course) run() (estimate.Span, bool) {
	begun := func() bool { return c.begun[c.Target.Order] }
	c.Play(begun)
	if !begun() {
		return 0, false
	}
	return c.At, true
}

// Play simulates the scenario until enough returns true, or no entry is left that could
// end. It calls enough after each pass.
func (c *Course) Play(enough func() bool) {
	if c.Tree != nil {
		mark := c.Tree.Mark()
		defer func() {
			c.Tree.Undo(mark)
			if mark == 0 {
				c.Tree.Keep()
			}
		}()
	}
	for {
		c.mature()
		c.pass()
		if enough() || len(c.ends) == 0 {
			return
		}
		// Ends that are close together, relative to their distance from now, count
		// as one.
		c.At = max(c.At, c.ends[0].at)
		for until := c.At + c.At/close; len(c.ends) > 0 && c.ends[0].at <= until; {
			next := c.ends.pop()
			c.At = max(c.At, next.at)
			c.leave(next.number)
		}
	}
}

func (c *Course) leave(i int) {
	c.gone[i] = true
	r := &c.active[i]
	for _, s := range r.Seats {
		c.board.give(s)
	}
	c.favoured -= c.favours[i]
	for _, v := range r.Charges {
		c.Tree.Refund(r.Work.Queue, r.Work.User, v)
	}
}

// mature moves the entries that have become overdue from later to due.
func (c *Course) mature() {
	n := 0
	for n < len(c.later) && c.later[n].DueAt <= c.At {
		n++
	}
	if n == 0 {
		return
	}
	c.due = append(c.due, c.later[:n]...)
	c.later = c.later[n:]
	slices.SortStableFunc(c.due, func(a, b *Pending) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), truth(b.Wide)-truth(a.Wide),
			cmp.Compare(a.Created, b.Created), cmp.Compare(a.Order, b.Order))
	})
}

// maxDue is the largest number of overdue entries that a pass tries.
const maxDue = 64

// pass starts the entries that have room, in the scheduler's order.
func (c *Course) pass() {
	c.due = slices.DeleteFunc(c.due, func(p *Pending) bool { return c.begun[p.Order] })
	gpus := c.favoured
	for i, p := range c.due {
		if gpus += p.GPUs; i == maxDue || p.GPUs > 0 && gpus > c.Most && (i > 0 || c.favoured > 0) {
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
		if p == c.Target {
			return
		}
		if next := c.head(p.shape); next != nil && c.mayStart(next) {
			at, _ := slices.BinarySearchFunc(c.heads[i+1:], next, inOrder)
			c.heads = slices.Insert(c.heads, i+1+at, next)
		}
	}
}

func inOrder(a, b *Pending) int { return cmp.Compare(a.Order, b.Order) }

// candidates collects the first waiting entry of each shape that may have room, in the
// order of their turns.
func (c *Course) candidates() {
	c.board.recount()
	c.heads = c.heads[:0]
	for i := range c.shapes {
		if p := c.head(i); p != nil && c.mayStart(p) {
			c.heads = append(c.heads, p)
		}
	}
	slices.SortFunc(c.heads, inOrder)
}

// head returns the first entry of a shape that has not started, or nil.
func (c *Course) head(shape int) *Pending {
	line, at := c.shapes[shape].line, c.cursor[shape]
	for at < len(line) && c.begun[line[at].Order] {
		at++
	}
	c.cursor[shape] = at
	if at == len(line) {
		return nil
	}
	return line[at]
}

// mayStart is a quick check with the counts of the last recount. If it returns false,
// the entry has no room.
func (c *Course) mayStart(p *Pending) bool {
	return c.board.fits(c.shapes[p.shape].lots) || c.mayJoin(p)
}

// mayJoin reports whether the policy expects an entry to end before the reservation
// needs its nodes.
func (c *Course) mayJoin(p *Pending) bool {
	return c.kept.owner != nil && c.kept.owner != p && c.At+p.Likely <= c.kept.at
}

func (c *Course) admits(p *Pending) bool {
	if c.Tree == nil {
		return true
	}
	_, ok := c.Tree.Admit(p.Work.Queue, p.Work.Ask)
	return ok
}

// place finds room for an entry and sets Seats to it.
func (c *Course) place(p *Pending) bool {
	if !c.admits(p) {
		return false
	}
	c.Seats = c.Seats[:0]
	var ok bool
	c.Seats, ok = c.board.fit(&c.shapes[p.shape], c.Seats)
	return ok
}

// squeeze finds room on reserved nodes for an entry that the policy expects to end in
// time.
func (c *Course) squeeze(p *Pending) bool {
	if !c.mayJoin(p) {
		return false
	}
	c.board.keep(c.kept.nodes, false)
	c.Seats = c.Seats[:0]
	var ok bool
	c.Seats, ok = c.board.fit(&c.shapes[p.shape], c.Seats)
	c.board.keep(c.kept.nodes, true)
	return ok
}

// begin starts an entry on the stalls in Seats.
func (c *Course) begin(p *Pending, favoured bool) {
	c.begun[p.Order] = true
	if c.Noted != nil {
		c.Noted(p)
	}
	r := Occupant{Work: &p.Work, Seats: slices.Clone(c.Seats), Likely: c.At + p.Likely}
	run := max(estimate.Second, p.Work.Estimate.Quantile(p.Work.Ran, quantile(c.scenario, c.Scenarios, p.Order, 0.37)))
	var favour int64
	if favoured {
		favour = p.GPUs
		c.favoured += favour
	}
	if c.Tree != nil && c.Tree.Charge(p.Work.Queue, p.Work.User, p.Work.Ask) {
		r.Charges = []queue.Vector{p.Work.Ask}
	}
	c.join(r, c.At+run, favour)
}

// reserve keeps nodes free for the first overdue entry without room. It chooses the
// nodes on which the entry has room first if every running entry ends when expected.
func (c *Course) reserve(p *Pending) {
	if c.kept.owner != nil {
		if c.kept.owner != p || c.kept.at > c.At {
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
		for _, s := range c.active[next.number].Seats {
			c.board.give(s)
		}
		if !c.board.mayFit(shape.lots) {
			continue
		}
		seats, ok := c.board.fit(shape, nil)
		if !ok {
			continue
		}
		c.kept = reservation{owner: p, at: max(next.at, c.At+1)}
		for _, s := range seats {
			c.board.give(s)
			if !slices.Contains(c.kept.nodes, s.Node) {
				c.kept.nodes = append(c.kept.nodes, s.Node)
			}
		}
		break
	}
	for _, i := range c.lifted {
		for _, s := range c.active[i].Seats {
			c.board.take(s)
		}
	}
	if c.kept.owner == p {
		c.board.keep(c.kept.nodes, true)
	}
}

// end is the end of an occupant, with its index.
type end struct {
	at     estimate.Span
	number int
}

func (e end) before(o end) bool { return e.at < o.at || e.at == o.at && e.number < o.number }

// endHeap is a heap of ends, earliest first.
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

// order builds the heap from ends in any order.
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
