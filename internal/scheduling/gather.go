package scheduling

import (
	"cmp"
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// gather places an entry that would rather be within one domain of a level, and
// has no room in any, in as few of them as it can, inside a wider domain: those
// with the most room are filled, and the last is the smallest that does. It is
// for members that are not to be apart.
func (c *Core) gather(e *entry, avoid *placement.NodeSet, outer placement.DomainID, at Level) (*fit, bool) {
	level := e.req.Topology.Within
	if level == at || level == LevelNode || e.host != nil || e.req.extends != "" || e.req.peers() || c.shunners > 0 ||
		slices.ContainsFunc(e.req.Roles, func(r Role) bool { return r.Spread.Over != "" }) {
		return nil, false
	}
	f := &fit{core: c, entry: e, avoid: avoid, domain: outer, mark: c.cluster.Mark()}
	used := map[placement.DomainID]bool{}
	for _, i := range c.scarceFirst(e, outer) {
		if !f.gatherRole(i, level, used) {
			f.back()
			return nil, false
		}
	}
	if !f.whole() {
		f.back()
		return nil, false
	}
	return f, true
}

// roomy is a domain and for how many members of a role it has room.
type roomy struct {
	domain placement.DomainID
	room   int
	used   bool
}

// gatherRole places a role's members in as few domains of a level as it can,
// those first in which others are already.
func (f *fit) gatherRole(i int, level Level, used map[placement.DomainID]bool) bool {
	c, outer, r := f.core, f.domain, &f.entry.req.Roles[i]
	defer func() { f.domain = outer }()
	todo := r.todo()
	if len(todo) == 0 {
		return true
	}
	var list []roomy
	for _, d := range c.domainsAt(level) {
		if !c.cluster.Inside(d, outer) {
			continue
		}
		if n := c.cluster.Room(f.entry.asks[i], placement.Scope{Domain: d, Avoid: f.avoid}, 1<<20); n > 0 {
			list = append(list, roomy{d, n, used[d]})
		}
	}
	slices.SortStableFunc(list, func(a, b roomy) int {
		return cmp.Or(truth(b.used)-truth(a.used), cmp.Compare(b.room, a.room))
	})
	for len(todo) > 0 && len(list) > 0 {
		at := 0
		for k := range list {
			// Of those in which all the others find room, the smallest.
			if list[k].room >= len(todo) && list[k].used == list[at].used {
				at = k
			}
		}
		n := min(list[at].room, len(todo))
		f.domain = list[at].domain
		if !f.pack(r, i, todo[:n]) {
			return false
		}
		used[f.domain], todo = true, todo[n:]
		list = slices.Delete(list, at, at+1)
	}
	// The rest are on nodes in no domain of the level.
	f.domain = outer
	return f.pack(r, i, todo)
}
