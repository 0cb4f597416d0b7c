package scheduling

import (
	"cmp"
	"slices"
)

// tenant is who holds something.
type tenant struct {
	Key
	pod   bool
	since Instant
	room  *room
	// resources is what it holds beside GPUs.
	resources Resources
}

// room is what is left on one node, and who has the rest.
type room struct {
	node  *Node
	free  Resources
	gpus  []*Device
	ports map[int32]bool
	// tenants hold devices or parts of them, by UUID.
	tenants map[string][]portion
}

// portion is how much a tenant has of a device.
type portion struct {
	*tenant
	share Share
}

// hasPorts reports that none of the ports is taken.
func (r *room) hasPorts(ports []int32) bool {
	for _, p := range ports {
		if r.ports[p] {
			return false
		}
	}
	return true
}

// house is what is left everywhere, the nodes in the order of their names: what
// a request that did not fit is compared with.
type house struct {
	rooms   []*room
	tenants []*tenant
}

// house subtracts what the entries hold from what the nodes have.
func (c *Core) house() *house {
	h := &house{}
	for _, s := range c.sites {
		if s == nil || c.nodes[s.node.Name] != s {
			continue
		}
		r := &room{node: &s.node, free: s.node.Allocatable, ports: make(map[int32]bool, len(s.ports)), tenants: make(map[string][]portion, len(s.node.Devices))}
		for p := range s.ports {
			r.ports[p] = true
		}
		for _, e := range s.here {
			for i := range e.held {
				if e.held[i].site == s {
					c.lodge(h, r, e, &e.held[i])
				}
			}
		}
		h.rooms = append(h.rooms, r)
	}
	h.tidy()
	return h
}

// lodge enters what one member holds on a node.
func (c *Core) lodge(h *house, r *room, e *entry, held *held) {
	who := &tenant{Key: e.req.Key, pod: e.req.Pod, since: e.since, room: r, resources: held.resources}
	h.tenants = append(h.tenants, who)
	r.free = r.free.minus(held.resources)
	c.lodgeSeats(r, who, held.seats)
}

// tidy finds the free devices, and puts the nodes in order.
func (h *house) tidy() {
	for _, r := range h.rooms {
		for d := range r.node.Devices {
			if dev := &r.node.Devices[d]; dev.usable() && len(r.tenants[dev.UUID]) == 0 {
				r.gpus = append(r.gpus, dev)
			}
		}
		slices.SortStableFunc(r.gpus, func(a, b *Device) int { return cmp.Compare(a.Index, b.Index) })
	}
	slices.SortFunc(h.rooms, func(a, b *room) int { return cmp.Compare(a.node.Name, b.node.Name) })
}
