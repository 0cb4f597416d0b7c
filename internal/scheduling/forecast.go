package scheduling

import (
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
