package scheduling

import (
	"cmp"
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// Level is a level of the topology; empty: none.
type Level string

// The levels, from the widest to the narrowest.
const (
	LevelZone   Level = "zone"
	LevelRack   Level = "rack"
	LevelNVLink Level = "nvlink"
	LevelNode   Level = "node"
)

// levels are those of which domains have names, the widest first.
var levels = [...]Level{LevelZone, LevelRack, LevelNVLink}

// Domains are the names of the domains that a node is in; empty where it is in
// none of that level. A rack of the same name in another zone is another rack.
type Domains struct {
	Zone, Rack, NVLink string
}

// Topology says where the members of a request are to be together.
type Topology struct {
	// Within is the level of which all are to be in one domain; empty: they may
	// be anywhere.
	Within Level
	// Required is true where that must be. Else a wider domain does as well, or
	// none, if no domain of the level has room.
	Required bool
}

// Spread says how the members of a role are to be apart.
type Spread struct {
	// Over is the level of which they are to be in different domains; empty:
	// it is all the same.
	Over Level
	// Required is true where no two may be in one domain. Else they are in as
	// many as have room.
	Required bool
}

// depth is the level's depth in package placement; 0 for single nodes.
func (l Level) depth() int { return slices.Index(levels[:], l) + 1 }

// wider are the level itself and those in which its domains are, and last the
// whole cluster.
func (l Level) wider() []Level {
	var out []Level
	if l == LevelNode {
		out = append(out, l)
	}
	for i, w := range slices.Backward(levels[:]) {
		if l == LevelNode || l.depth() > i {
			out = append(out, w)
		}
	}
	return append(out, "")
}

// path is the place of a node for package placement: nothing for one that is in
// no domain at all.
func (d Domains) path() []string {
	path := []string{d.Zone, d.Rack, d.NVLink}
	for len(path) > 0 && path[len(path)-1] == "" {
		path = path[:len(path)-1]
	}
	return path
}

// anywhere reports that nothing is said of where members are to be, together
// or apart.
func (r *Request) anywhere() bool {
	return r.Topology.Within == "" && !r.peers() && !slices.ContainsFunc(r.Roles, func(r Role) bool { return r.Spread.Over != "" })
}

// evenly reports that a role is to be spread as far as there is room, or has
// other wishes of the kind.
func (r *Request) evenly() bool {
	return r.wishes() || slices.ContainsFunc(r.Roles, func(r Role) bool { return r.Spread.Over != "" && !r.Spread.Required })
}

// placeByTopology places an entry in the domain that it asks for: of those with
// room the one that is left with the least free, so that large ones stay whole.
// Where the level is preferred alone, wider ones follow. What is spread as far
// as there is room is placed without that where it finds none.
func (c *Core) placeByTopology(e *entry, avoid *placement.NodeSet) (*fit, bool) {
	tried := []Level{e.req.Topology.Within}
	if !e.req.Topology.Required && tried[0] != "" {
		tried = tried[0].wider()
	}
	evenly := e.req.evenly()
	for _, level := range tried {
		for _, a := range c.areas(e, level, avoid) {
			if f, ok := c.gather(e, avoid, a.domain, level); ok {
				return f, true
			}
			if f, ok := c.placeIn(e, avoid, a.domain, true); ok {
				return f, true
			}
			if !evenly {
				continue
			}
			if f, ok := c.placeIn(e, avoid, a.domain, false); ok {
				return f, true
			}
		}
	}
	return nil, false
}

// area is a domain in which an entry may have room.
type area struct {
	domain placement.DomainID
	// tier is how far down the list of GPU models the entry has to go there.
	tier int
	// spoilt is true where GPUs are near and none is wanted.
	spoilt    bool
	free, cpu int64
}

// areas are the domains of a level in which each role of an entry has room by
// itself, the best first: with the GPU models that are wanted most, then with
// the least that is free; without GPUs for what wants none.
func (c *Core) areas(e *entry, level Level, avoid *placement.NodeSet) []area {
	if level == "" {
		return []area{{domain: placement.NoDomain}}
	}
	wants := make([]placement.Want, len(e.asks))
	for i, k := range e.asks {
		wants[i] = placement.Want{Class: k, N: int(members(&e.req.Roles[i]))}
	}
	if level == LevelNode && e.gpus > int64(c.cluster.MostOnOne())*placement.Whole {
		return nil
	}
	var out []area
	for _, d := range c.domainsFor(e, level) {
		if c.cluster.CannotFitIn(wants, d) || c.lacks(wants, d, avoid) {
			continue
		}
		free := c.cluster.DomainTotals(d)
		out = append(out, area{
			domain: d, tier: c.tierIn(e, d, avoid), spoilt: e.gpus == 0 && free.Devices > 0, free: free.FreeMilli, cpu: free.MilliCPU,
		})
	}
	slices.SortStableFunc(out, func(a, b area) int {
		return cmp.Or(truth(a.spoilt)-truth(b.spoilt), cmp.Compare(a.tier, b.tier), cmp.Compare(a.free, b.free), cmp.Compare(a.cpu, b.cpu))
	})
	return out
}

// domainsFor are the domains of a level in which an entry may be: the one where
// the gang is already to which it adds members, or else all.
func (c *Core) domainsFor(e *entry, level Level) []placement.DomainID {
	if d, ok := c.home(e, level); ok {
		return []placement.DomainID{d}
	}
	return c.domainsAt(level)
}

// domainsAt are the domains of a level, by path; the list is good until the
// next call.
func (c *Core) domainsAt(level Level) []placement.DomainID {
	c.domains = c.domains[:0]
	if level != LevelNode {
		c.domains = c.cluster.Domains(level.depth(), c.domains)
		return c.domains
	}
	c.rows = c.cluster.Nodes(c.rows[:0])
	for _, id := range c.rows {
		c.domains = append(c.domains, placement.Alone(id))
	}
	return c.domains
}

// lacks reports that a domain has no room for one of the roles alone.
func (c *Core) lacks(wants []placement.Want, d placement.DomainID, avoid *placement.NodeSet) bool {
	return slices.ContainsFunc(wants, func(w placement.Want) bool {
		return w.N > 0 && c.cluster.Room(w.Class, placement.Scope{Domain: d, Avoid: avoid}, w.N) < w.N
	})
}

// tierIn is how far down its list of GPU models an entry has to go for room in
// a domain: 0 is the model that is wanted most.
func (c *Core) tierIn(e *entry, d placement.DomainID, avoid *placement.NodeSet) int {
	tier := 0
	for i := range e.req.Roles {
		r := &e.req.Roles[i]
		for n := int(members(r)); n > 0 && r.GPUs > 0 && tier+1 < len(r.Models); tier++ {
			narrow := *r
			narrow.Models = r.Models[:tier+1]
			if c.cluster.Room(c.ask(&narrow, 1), placement.Scope{Domain: d, Avoid: avoid}, n) >= n {
				break
			}
		}
	}
	return tier
}

// domainOf is the domain of a level that a node is in; false if it is in none.
func (c *Core) domainOf(id placement.NodeID, level Level) (placement.DomainID, bool) {
	if level == LevelNode {
		return placement.Alone(id), true
	}
	d := c.cluster.NodeDomain(id, level.depth())
	return d, d != placement.NoDomain
}

// spread places the members of a role one a domain, and once more one a domain
// if the role may, until all are placed.
func (f *fit) spread(r *Role, class placement.Class, todo []int32) bool {
	c := f.core
	for len(todo) > 0 {
		scope := placement.Scope{Domain: f.domain, Avoid: f.avoid}
		if len(r.FixedPorts) > 0 {
			scope.Avoid = c.busy(r.FixedPorts, f.avoid)
		}
		c.rows = c.cluster.BestOfEach(class, scope, r.Spread.Over.depth(), c.rows[:0])
		switch {
		case r.Spread.Required && len(c.rows) < len(todo):
			return false
		case len(c.rows) == 0:
			// What is left are nodes in no domain of that level.
			return f.members(r, class, todo)
		}
		for _, id := range c.rows[:min(len(c.rows), len(todo))] {
			seat, ok := c.cluster.PlaceOn(class, id)
			if !ok {
				return false
			}
			f.hold(r, todo[0], seat)
			todo = todo[1:]
		}
	}
	return true
}
