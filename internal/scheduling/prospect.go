package scheduling

import (
	"cmp"
	"maps"
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/outlook"
	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// Prospect is where a waiting gang is likely to start before long.
type Prospect struct {
	UID string
	// Nodes are those that it may get, by name: those that are kept or cleared for it,
	// or else the likeliest, somewhat more than it needs.
	Nodes []string
}

const (
	// near is how far ahead it is looked for those that start.
	near = estimate.Hour / 2
	// prospectScenarios is in how many ways the time to come is played through for that.
	prospectScenarios = 5
	// maxProspects is how many gangs are told of, and maxProspectNodes how many nodes of
	// each.
	maxProspects     = 16
	maxProspectNodes = 64
)

// Prospects are the gangs among those that are wanted that will start before long: in
// half an hour, or next in their queue where nobody can say when. Wanted has their UIDs,
// with the nodes that they were last said to get: as long as these are likely they are
// named again. They are in the order of their turns. The core is left as it is.
func (c *Core) Prospects(wanted map[string][]string, now Instant) []Prospect {
	if !slices.ContainsFunc(c.waiting, func(e *entry) bool { return hasProspects(wanted, e) }) {
		return nil
	}
	// What is beyond a minimum is given back to whoever waits.
	defer c.lifting()()
	c.raiseExtras()
	o, waiting := c.newOutlook(nil, now)
	o.Scenarios = prospectScenarios
	v := newVista(c, waiting, wanted)
	for s := range o.Scenarios {
		v.watch(outlook.NewCourse(o, s))
	}
	var out []Prospect
	for _, e := range v.order {
		nodes := c.setAside(e, now)
		if nodes == nil {
			nodes = v.likeliest(e, wanted[e.req.UID])
		}
		if len(nodes) > 0 && len(out) < maxProspects {
			out = append(out, Prospect{UID: e.req.UID, Nodes: nodes[:min(len(nodes), maxProspectNodes)]})
		}
	}
	return out
}

// hasProspects reports whether an entry is a gang that is asked for.
func hasProspects(wanted map[string][]string, e *entry) bool {
	_, is := wanted[e.req.UID]
	return is && !e.req.Pod && e.req.extends == ""
}

// setAside are the nodes that others are to leave for an entry, or that are kept free
// for it and will be soon; nil: none are.
func (c *Core) setAside(e *entry, now Instant) []string {
	for i, p := range slices.Concat(c.nominations, c.promises) {
		if p.entry != e || len(p.nodes) == 0 || i >= len(c.nominations) && p.at.since(now) > near {
			continue
		}
		var out []string
		for _, id := range p.nodes {
			out = append(out, c.nodeName(id))
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	return nil
}

func (c *Core) nodeName(id placement.NodeID) string { return c.sites[id].node.Name }

// vista is what several scenarios show of the gangs that are asked for.
type vista struct {
	core *Core
	// order are these gangs, and first those of them that are the first in their queue.
	order []*entry
	first map[*entry]bool
	seen  map[*entry]*sight
	// waiting are all that wait, in the order of their turns.
	waiting []*entry
}

// sight is what they show of one gang.
type sight struct {
	// times is in how many it starts before long, and needs how many nodes it has there
	// at most.
	times, needs int
	nodes        map[int32]int
}

func newVista(c *Core, waiting []*entry, wanted map[string][]string) *vista {
	v := &vista{core: c, waiting: waiting, first: map[*entry]bool{}, seen: map[*entry]*sight{}}
	begun := map[string]bool{}
	for _, e := range waiting {
		if !hasProspects(wanted, e) {
			begun[e.req.Queue] = begun[e.req.Queue] || e.gpus > 0
			continue
		}
		v.order = append(v.order, e)
		v.seen[e] = &sight{nodes: map[int32]int{}}
		v.first[e] = !begun[e.req.Queue]
		begun[e.req.Queue] = true
	}
	return v
}

// watch plays a scenario as far as it matters, and notes what begins in it.
func (v *vista) watch(c *outlook.Course) {
	firsts := 0
	for _, first := range v.first {
		if first {
			firsts++
		}
	}
	c.Noted = func(p *outlook.Pending) {
		e := v.waiting[p.Order]
		s := v.seen[e]
		if s == nil {
			return
		}
		if v.first[e] {
			firsts--
		}
		soon := c.At <= near || v.first[e] && c.EndsBasis() == estimate.BasisGuess
		if !soon {
			return
		}
		nodes := map[int32]bool{}
		for _, s := range c.Seats {
			nodes[s.Node] = true
		}
		s.times++
		s.needs = max(s.needs, len(nodes))
		for node := range nodes {
			s.nodes[node]++
		}
	}
	c.Play(func() bool { return firsts == 0 && c.At > near })
}

// likeliest are the nodes on which a gang starts in most scenarios, if it does in most
// of them: those that it needs, and half as many more. Those that were named before go
// before others that are as likely.
func (v *vista) likeliest(e *entry, before []string) []string {
	s := v.seen[e]
	if s.times <= prospectScenarios/2 {
		return nil
	}
	weight := func(node int32) int {
		w := 2 * s.nodes[node]
		if slices.Contains(before, v.core.nodeName(placement.NodeID(node))) {
			w++
		}
		return w
	}
	ids := slices.SortedFunc(maps.Keys(s.nodes), func(a, b int32) int {
		return cmp.Or(weight(b)-weight(a), cmp.Compare(a, b))
	})
	var out []string
	for _, id := range ids[:min(len(ids), s.needs+max(1, s.needs/2))] {
		out = append(out, v.core.nodeName(placement.NodeID(id)))
	}
	slices.Sort(out)
	return out
}
