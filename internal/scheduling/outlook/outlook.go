package outlook

import (
	"math"
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// Outlook holds the waiting entries, the running entries and the nodes as plain
// counters. Every scenario starts from a copy of them.
type Outlook struct {
	// Tree is the tree of queues; nil without queues. Scenarios undo their changes.
	Tree *queue.Tree
	// Book returns the basis of an entry's estimated end.
	Book *estimate.Book
	// Favoured counts the GPUs, in thousandths, of entries that the scheduler started
	// out of order. Most is its limit.
	Favoured, Most int64
	// Scenarios is the number of scenarios.
	Scenarios int
	// Target is the waiting entry whose start the caller wants; nil if it does not wait.
	Target *Pending
	// Waiting lists the waiting entries in the order of their turns.
	Waiting []*Pending
	// Basis is the most frequent basis of the ends in the middle scenario.
	Basis estimate.Basis

	shapes  []shape
	running []Occupant
	likely  endHeap // ends that the policy expects for the running entries
	board   board
}

// Lot is the request of the members of one role.
type Lot struct {
	Members int
	// Milli is each member's GPUs in thousandths. CPU and Memory are each member's
	// CPU and memory.
	Milli, CPU, Memory int64
	// Kinds is the bit of the nodes that accept the role.
	Kinds        uint64
	LargestChunk int
	// Apart is the topology level at which each member needs a domain of its own;
	// 0: none.
	Apart int

	room int // its number on the board
}

// shape is a request that several waiting entries share. Either all of them have
// room or none has.
type shape struct {
	lots   []Lot
	within int        // topology level at which all members share one domain; 0: none
	line   []*Pending // in order
}

// Work describes a waiting or running entry.
type Work struct {
	Estimate *estimate.Estimate
	Evidence *estimate.Evidence
	// Ran is the time for which the entry has run.
	Ran   estimate.Span
	Queue queue.Queue
	User  queue.User
	Ask   queue.Vector
}

// Pending is a waiting entry.
type Pending struct {
	Work Work
	// GPUs is the number of GPUs of all members, in thousandths.
	GPUs     int64
	Priority int32
	// Wide is true if the entry needs a whole node or more.
	Wide bool
	// Created orders entries by age. DueAt is the time, from now on, at which the entry
	// becomes overdue.
	Created int64
	DueAt   estimate.Span
	// Likely is the run time that the policy expects.
	Likely estimate.Span
	// Order is the entry's index in Waiting.
	Order int

	shape int
}

// Occupant is a running entry.
type Occupant struct {
	Work    *Work
	Seats   []Stall
	Charges []queue.Vector
	// Favoured counts its GPUs, in thousandths, that the scheduler started out of order.
	Favoured int64
	// Likely is the end, from now on, that the policy expects when it checks whether
	// the entry delays another.
	Likely estimate.Span
}

// Stall is the share of one node that an entry holds.
type Stall struct {
	Node               int32
	Milli, CPU, Memory int64
}

// Node describes the free resources of a node.
type Node struct {
	// Milli counts the free GPUs in thousandths. CPU and Memory are the free CPU and
	// memory.
	Milli, CPU, Memory int64
	// Kinds are the bits of the kinds of lots that the node accepts; 0 if it accepts
	// none, or is missing.
	Kinds uint64
}

// SetNodes sets the free resources of the nodes. Largest is the largest number of
// GPUs in a node.
func (o *Outlook) SetNodes(nodes []Node, largest int) { o.board.build(nodes, largest) }

// Confined reports whether a shape has a topology constraint. The caller must then
// call SetDomains.
func (o *Outlook) Confined() bool {
	return slices.ContainsFunc(o.shapes, func(s shape) bool { return s.confined() })
}

// SetDomains sets the topology domains of the nodes.
func (o *Outlook) SetDomains(d *Domains) { o.board.domains = d }

// AddShape adds a shape and returns its number. All its lots need one common domain of
// the level within; 0: no constraint.
func (o *Outlook) AddShape(lots []Lot, within int) int {
	for k := range lots {
		lots[k].room = o.board.number(&lots[k])
	}
	o.shapes = append(o.shapes, shape{lots: lots, within: within})
	return len(o.shapes) - 1
}

// AddWaiting appends a waiting entry with the requests of a shape.
func (o *Outlook) AddWaiting(p *Pending, shape int) {
	p.Order, p.shape = len(o.Waiting), shape
	o.shapes[shape].line = append(o.shapes[shape].line, p)
	o.Waiting = append(o.Waiting, p)
}

// AddRunning adds a running entry.
func (o *Outlook) AddRunning(r Occupant) {
	o.likely.push(end{at: r.Likely, number: len(o.running)})
	o.running = append(o.running, r)
}

// golden spreads numbers evenly over [0, 1).
const golden = 0.6180339887498949

// quantile returns the quantile of its estimate at which an entry ends in a scenario.
// The scenarios together sample each entry's distribution evenly.
func quantile(scenario, of, number int, salt float64) float64 {
	x := (float64(scenario)+0.5)/float64(of) + float64(float64(number+1)*golden) + salt
	return min(0.995, max(0.005, x-math.Floor(x)))
}

// Starts returns the target's start times, from now on, in ascending order. A scenario
// in which the target does not start adds none.
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

// EndsBasis returns the most frequent basis of the ends so far. Of two equally frequent
// ones it returns the more reliable one.
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
