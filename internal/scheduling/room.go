package scheduling

import (
	"cmp"
	"slices"
)

// tenant is who holds something.
type tenant struct {
	Key
	pod   bool
	claim bool
	since Instant
	room  *room
	// resources is what it holds beside GPUs.
	resources Resources
}

// room is what is left on one node, and who has the rest.
type room struct {
	node *Node
	free Resources
	// ports counts who uses each.
	ports map[int32]int
	// tenants hold the devices of the node, or parts of them, in its order.
	tenants [][]portion
}

// portion is how much a tenant has of a device.
type portion struct {
	*tenant
	share Share
}

// hasPorts reports that none of the ports is taken.
func (r *room) hasPorts(ports []int32) bool {
	for _, p := range ports {
		if r.ports[p] > 0 {
			return false
		}
	}
	return true
}

// isFree reports that a device of the node may be given out.
func (r *room) isFree(device int) bool {
	return len(r.tenants[device]) == 0 && r.node.Devices[device].usable()
}

// house is what is left everywhere, the nodes in the order of their names: what
// a request that did not fit is compared with.
type house struct {
	rooms   []room
	tenants []*tenant
	// sums are what was counted, by kind of device.
	sums map[string]*sum
	// has and left are what all nodes have, and what they have left.
	has, left Resources
	counted   bool
}

// house subtracts what the entries hold from what the nodes have.
func (c *Core) house() *house {
	sites := c.inOrder()
	h := &house{rooms: make([]room, len(sites)), sums: map[string]*sum{}}
	devices := 0
	for _, s := range sites {
		devices += len(s.node.Devices)
	}
	tenants := make([][]portion, devices)
	for i, s := range sites {
		n := len(s.node.Devices)
		r := &h.rooms[i]
		*r = room{node: &s.node, free: s.node.Allocatable, ports: s.ports, tenants: tenants[:n:n]}
		tenants = tenants[n:]
		for _, e := range s.here {
			for k := range e.held {
				if e.held[k].site == s {
					c.lodge(h, r, e, &e.held[k])
				}
			}
		}
	}
	return h
}

// inOrder are the nodes in the order of their names.
func (c *Core) inOrder() []*site {
	if c.byNameAt == c.version+1 {
		return c.byName
	}
	c.byName, c.byNameAt = c.byName[:0], c.version+1
	for _, s := range c.sites {
		if c.known(s) {
			c.byName = append(c.byName, s)
		}
	}
	slices.SortFunc(c.byName, func(a, b *site) int { return cmp.Compare(a.node.Name, b.node.Name) })
	return c.byName
}

// lodge enters what one member holds on a node.
func (c *Core) lodge(h *house, r *room, e *entry, held *held) {
	who := &tenant{Key: e.req.Key, pod: e.req.Pod, claim: e.req.claim, since: e.since, room: r, resources: held.resources}
	h.tenants = append(h.tenants, who)
	r.free = r.free.minus(held.resources)
	c.lodgeSeats(r, who, held.seats)
}

// count adds up what all nodes have.
func (h *house) count() {
	if h.counted {
		return
	}
	for i := range h.rooms {
		h.has, h.left = h.has.plus(h.rooms[i].node.Allocatable), h.left.plus(h.rooms[i].free)
	}
	h.counted = true
}
