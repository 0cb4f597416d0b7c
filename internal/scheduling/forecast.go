package scheduling

import (
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/outlook"
	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// The number of scenarios of a forecast; scenariosCrowd if more than crowded entries
// run and wait. In each scenario every entry ends at another quantile of its own
// estimate.
const (
	scenarios      = 9
	scenariosCrowd = 5
	crowded        = 4000
)

// maxKinds is the largest number of kinds of nodes in a forecast. A kind is a set of
// models, labels and taints that a waiting role asks for.
const maxKinds = 64

// newOutlook copies the queues, the waiting entries, the running entries and the nodes
// into an Outlook for the start of one waiting entry, or of none. It also returns the
// waiting entries in the order of their turns. It does not change the core.
func (c *Core) newOutlook(target *entry, now Instant) (*outlook.Outlook, []*entry) {
	o := &outlook.Outlook{Book: &c.book, Favoured: c.favoured}
	if !c.free4all() {
		o.Tree = c.tree
	}
	o.Most = favourable * c.cluster.Totals().Devices * placement.Whole / 10
	kinds := &kindTable{core: c, byName: map[string]uint64{}}
	waiting := c.inTurn(now)
	c.addWaiting(o, kinds, waiting, now)
	if at := slices.Index(waiting, target); at >= 0 {
		o.Target = o.Waiting[at]
	}
	o.Scenarios = scenarios
	if len(waiting)+len(c.running) > crowded {
		o.Scenarios = scenariosCrowd
	}
	o.SetNodes(c.freeNodes(kinds), c.largest)
	if o.Confined() {
		o.SetDomains(c.nodeDomains())
	}
	c.addRunning(o, now)
	return o, waiting
}

func (c *Core) addWaiting(o *outlook.Outlook, kinds *kindTable, waiting []*entry, now Instant) {
	shapes := map[string]int{}
	for _, e := range waiting {
		p := &outlook.Pending{
			Work: e.work(e.req.Ran), GPUs: e.gpus, Priority: e.req.Priority, Wide: c.wide(e), Created: int64(e.created()),
			DueAt: estimate.Span(e.dueAt - now), Likely: e.estimate.Quantile(e.req.Ran, likely),
		}
		lots := kinds.lots(e)
		within := Level("")
		if e.req.Topology.Required {
			within = e.req.Topology.Within
		}
		key := shapeKey(lots) + string(within)
		if o.Tree != nil {
			key += "/" + e.req.Queue
		}
		at, known := shapes[key]
		if !known {
			at = o.AddShape(lots, within.tier())
			shapes[key] = at
		}
		o.AddWaiting(p, at)
	}
}

func (c *Core) addRunning(o *outlook.Outlook, now Instant) {
	works := make([]outlook.Work, len(c.running))
	for i, e := range c.running {
		works[i] = e.work(e.age(now))
		r := outlook.Occupant{Work: &works[i], Favoured: e.favoured, Likely: e.estimate.Quantile(works[i].Ran, likely)}
		for k := range e.held {
			h := &e.held[k]
			if h.up {
				continue
			}
			r.Seats = append(r.Seats, outlook.Stall{Node: int32(h.site.id), Milli: h.milli(), CPU: h.resources.MilliCPU, Memory: h.resources.Memory})
			if o.Tree != nil {
				r.Charges = append(r.Charges, h.charged)
			}
		}
		o.AddRunning(r)
	}
}

// work describes an entry that has run for a while for an outlook.
func (e *entry) work(ran estimate.Span) outlook.Work {
	return outlook.Work{Estimate: &e.estimate, Evidence: &e.req.Evidence, Ran: ran, Queue: e.queue, User: e.user, Ask: e.ask}
}

// freeNodes returns all nodes with their free resources. All GPUs of a node count as
// alike.
func (c *Core) freeNodes(kinds *kindTable) []outlook.Node {
	out := make([]outlook.Node, len(c.sites))
	for i, s := range c.sites {
		if !c.known(s) {
			continue
		}
		n := &out[i]
		if n.Kinds = kinds.served(&s.node); n.Kinds == 0 {
			continue
		}
		n.CPU, n.Memory = s.node.Allocatable.MilliCPU, s.node.Allocatable.Memory
		for d := range s.node.Devices {
			if s.node.Devices[d].usable() {
				n.Milli += placement.Whole
			}
		}
		n.Milli -= s.milli
		for _, e := range s.here {
			for k := range e.held {
				if h := &e.held[k]; h.site == s && !h.up {
					n.CPU -= h.resources.MilliCPU
					n.Memory -= h.resources.Memory
				}
			}
		}
	}
	return out
}

// tier returns the level's number in an outlook; 0 for no level.
func (l Level) tier() int {
	switch l {
	case "":
		return 0
	case LevelNode:
		return len(levels) + 1
	}
	return l.depth()
}

// nodeDomains returns the topology domains of all nodes.
func (c *Core) nodeDomains() *outlook.Domains {
	f := &outlook.Domains{Of: make([][]int32, len(levels)+1), Nodes: make([][][]int32, len(levels)+1)}
	for at := range f.Of {
		f.Of[at] = make([]int32, len(c.sites))
		numbers := map[int32]int32{}
		for i, s := range c.sites {
			f.Of[at][i] = -1
			if !c.known(s) {
				continue
			}
			key := int32(i)
			if at < len(levels) {
				d, some := c.domainOf(s.id, levels[at])
				if !some {
					continue
				}
				key = int32(d)
			} else {
				f.All = append(f.All, key)
			}
			number, known := numbers[key]
			if !known {
				number = int32(len(f.Nodes[at]))
				numbers[key] = number
				f.Nodes[at] = append(f.Nodes[at], nil)
			}
			f.Of[at][i] = number
			f.Nodes[at][number] = append(f.Nodes[at][number], int32(i))
		}
	}
	return f
}

// inTurn returns the waiting entries that could start now if they had room, in the order
// of their turns.
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

// served are the kinds that a node takes.
func (t *kindTable) served(n *Node) uint64 {
	var bits uint64
	for at, r := range t.roles {
		if n.refuses(*r) != "" || r.wantsGPU() && !slices.ContainsFunc(n.Devices, func(d Device) bool { return d.usable() && r.accepts(d) }) {
			continue
		}
		bits |= 1 << at
	}
	return bits
}

func (t *kindTable) lots(e *entry) []outlook.Lot {
	out := make([]outlook.Lot, 0, len(e.req.Roles))
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
		out = append(out, outlook.Lot{
			Apart: apart.tier(), Members: n, Milli: t.core.milli(r), CPU: max(0, r.Resources.MilliCPU), Memory: max(0, r.Resources.Memory),
			Kinds: t.bit(r), LargestChunk: t.core.chunk(r, n),
		})
	}
	return out
}

func shapeKey(lots []outlook.Lot) string {
	var b strings.Builder
	for _, l := range lots {
		for _, v := range []int64{int64(l.Members), l.Milli, l.CPU, l.Memory, int64(l.Kinds), int64(l.Apart)} {
			for range 8 {
				b.WriteByte(byte(v))
				v >>= 8
			}
		}
		b.WriteByte('|')
	}
	return b.String()
}
