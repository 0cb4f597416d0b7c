package outlook

import (
	"math"
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// Outlook is the time to come: the waiting, the running and the nodes in plain
// counters, from which each scenario starts anew.
type Outlook struct {
	// Tree has the queues, and is left as it is; nil: there are none.
	Tree *queue.Tree
	// Book says what the ends of work are known from.
	Book *estimate.Book
	// Favoured is how much work that was started out of order holds, in
	// thousandths of GPUs, and Most how much it may hold.
	Favoured, Most int64
	// Scenarios is how many there are.
	Scenarios int
	// Target is the waiting entry whose start is asked for; nil: it does not wait.
	Target *Pending
	// Waiting are in the order of their turns.
	Waiting []*Pending
	// Basis is what the ends in the middle scenario are known from.
	Basis estimate.Basis

	shapes  []shape
	running []Occupant
	likely  endHeap // when the policy takes the running to end
	board   board
}

// Lot is what the members of one role ask for.
type Lot struct {
	Members int
	// Milli are thousandths of GPUs; CPU and Memory are asked for beside.
	Milli, CPU, Memory int64
	// Kinds is the bit of the nodes that take it.
	Kinds        uint64
	LargestChunk int
	// Apart is the level of which no two members may be in one domain; 0: none.
	Apart int

	room int // its number on the board
}

// shape is a way to ask: entries of one shape find room or not together.
type shape struct {
	lots   []Lot
	within int        // level of which all have to be in one domain; 0: none
	line   []*Pending // in order
}

// Work is what is known of a piece of work.
type Work struct {
	Estimate *estimate.Estimate
	Evidence *estimate.Evidence
	// Ran is how long it has run.
	Ran   estimate.Span
	Queue queue.Queue
	User  queue.User
	Ask   queue.Vector
}

// Pending is a waiting entry.
type Pending struct {
	Work Work
	// GPUs is what it asks for in all, in thousandths.
	GPUs     int64
	Priority int32
	// Wide is true where it needs a node or more.
	Wide bool
	// Created orders entries by age. DueAt is when its patience ends, from now on.
	Created int64
	DueAt   estimate.Span
	// Likely is within what time the policy takes it to end once it has started.
	Likely estimate.Span
	// Order is its place among the waiting.
	Order int

	shape int
}

// Occupant is a running entry.
type Occupant struct {
	Work    *Work
	Seats   []Stall
	Charges []queue.Vector
	// Favoured is how much of it was started out of order.
	Favoured int64
	// Likely is when the policy takes it to have ended, from now on, where it asks
	// whether it delays another.
	Likely estimate.Span
}

// Stall is what is held of one node.
type Stall struct {
	Node               int32
	Milli, CPU, Memory int64
}

// Node is a node as it is now.
type Node struct {
	// Milli is what is free of its GPUs, and CPU and Memory what is free beside.
	Milli, CPU, Memory int64
	// Kinds are the bits of the kinds of lots that it takes; 0: none, or it is not
	// there.
	Kinds uint64
}

// SetNodes says what is free now. Largest is the most GPUs that a node has.
func (o *Outlook) SetNodes(nodes []Node, largest int) { o.board.build(nodes, largest) }

// Confined reports whether members have to be in one domain, or apart: then
// SetDomains has to say where nodes are.
func (o *Outlook) Confined() bool {
	return slices.ContainsFunc(o.shapes, func(s shape) bool { return s.confined() })
}

// SetDomains says in which domains the nodes are.
func (o *Outlook) SetDomains(d *Domains) { o.board.domains = d }

// AddShape adds a way to ask, by lots of which all have to be in one domain of a
// level (0: of none), and returns its number.
func (o *Outlook) AddShape(lots []Lot, within int) int {
	for k := range lots {
		lots[k].room = o.board.number(&lots[k])
	}
	o.shapes = append(o.shapes, shape{lots: lots, within: within})
	return len(o.shapes) - 1
}

// AddWaiting adds the next of the waiting, which asks in the way of a shape.
func (o *Outlook) AddWaiting(p *Pending, shape int) {
	p.Order, p.shape = len(o.Waiting), shape
	o.shapes[shape].line = append(o.shapes[shape].line, p)
	o.Waiting = append(o.Waiting, p)
}

// AddRunning adds what runs.
func (o *Outlook) AddRunning(r Occupant) {
	o.likely.push(end{at: r.Likely, number: len(o.running)})
	o.running = append(o.running, r)
}

// golden spreads numbers evenly over [0, 1).
const golden = 0.6180339887498949

// quantile is at which quantile of its estimate an entry ends in a scenario:
// over all scenarios, each entry takes each part of its distribution once.
func quantile(scenario, of, number int, salt float64) float64 {
	x := (float64(scenario)+0.5)/float64(of) + float64(float64(number+1)*golden) + salt
	return min(0.995, max(0.005, x-math.Floor(x)))
}

// Starts are when the target starts, in every scenario in which it does, from now on,
// in ascending order.
func (o *Outlook) Starts() []estimate.Span {
	var out []estimate.Span
	if o.Target == nil {
		return nil
	}
	for s := range o.Scenarios {
		c := NewCourse(o, s)
		if at, ok := c.run(); ok {
			out = append(out, at)
		}
		if s == o.Scenarios/2 {
			o.Basis = c.EndsBasis()
		}
	}
	slices.Sort(out)
	return out
}

// EndsBasis is what most of the ends so far are known from; the firmer of two
// that are as many.
func (c *Course) EndsBasis() estimate.Basis {
	bases := [...]estimate.Basis{estimate.BasisProgress, estimate.BasisDeclared, estimate.BasisHistory, estimate.BasisLimit, estimate.BasisGuess}
	var count [len(bases)]int
	for i := range c.active {
		if c.gone[i] {
			count[slices.Index(bases[:], c.Book.Basis(*c.active[i].Work.Evidence))]++
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

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}
