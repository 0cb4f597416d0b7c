package scheduling

import "github.com/muster-dev/muster/internal/scheduling/placement"

// host is the placed gang to which an entry is to add members; nil for one that
// is a request of its own.
func (c *Core) host(e *entry) *entry {
	if e.host != nil {
		return e.host
	}
	if e.req.extends == "" {
		return nil
	}
	return c.entries[e.req.extends]
}

// home is the domain of a level in which the gang that an entry adds to is
// already; false if there is none.
func (c *Core) home(e *entry, level Level) (placement.DomainID, bool) {
	host := c.host(e)
	if host == nil {
		return placement.NoDomain, false
	}
	for i := range host.held {
		if s := host.held[i].site; c.known(s) {
			if d, ok := c.domainOf(s.id, level); ok {
				return d, true
			}
		}
	}
	return placement.NoDomain, false
}

// besides are the nodes to avoid, and those in the domains where members of the
// role are already that are to be apart from the ones to add.
func (f *fit) besides(r *Role) *placement.NodeSet {
	host := f.core.host(f.entry)
	if host == nil {
		return f.avoid
	}
	out := &placement.NodeSet{}
	for _, s := range f.core.sites {
		if f.core.known(s) && f.avoid.Has(s.id) {
			out.Add(s.id)
		}
	}
	for i := range host.held {
		h := &host.held[i]
		if h.role != r.Name || !f.core.known(h.site) {
			continue
		}
		if d, ok := f.core.domainOf(h.site.id, r.Spread.Over); ok {
			f.close(out, d)
		}
	}
	return out
}
