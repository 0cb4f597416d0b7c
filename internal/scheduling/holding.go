package scheduling

import (
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// free gives back all that an entry holds; it is no longer placed.
func (c *Core) free(e *entry) {
	if !e.placed {
		return
	}
	c.giveUp(e)
	e.placed, e.toldAt, e.missed, e.promisedAt = false, 0, 0, 0
	e.late, e.after, e.lates = 0, 0, nil
	c.favoured -= e.favoured
	e.favoured = 0
	if at, found := slices.BinarySearchFunc(c.running, e, byUID); found {
		c.running = slices.Delete(c.running, at, at+1)
	}
}

// giveUp releases all that an entry was given.
func (c *Core) giveUp(e *entry) {
	for i := range e.held {
		c.release(e, &e.held[i])
	}
	e.held, e.lacks = e.held[:0], nil
	delete(c.lacking, e.req.UID)
}

func byUID(a, b *entry) int { return strings.Compare(a.req.UID, b.req.UID) }

func (c *Core) insertRunning(e *entry) {
	at, found := slices.BinarySearchFunc(c.running, e, byUID)
	if !found {
		c.running = slices.Insert(c.running, at, e)
	}
}

// take notes what a member holds already. What is not known here, or what
// another holds too, is left out until it can be given: see mend.
func (c *Core) take(e *entry, a Assignment, r Resources, loose int32) {
	s := c.nodes[a.Node]
	if s == nil {
		c.lack(e, want{node: a.Node})
		return
	}
	h := held{role: a.Role, index: a.Index, site: s, resources: r}
	if seat, ok := c.seat(resourcesAsk(r, 1), s.id); ok {
		h.seats = append(h.seats, seat)
	}
	if !s.node.Counts {
		loose = 0
	} else if len(a.GPUs) > 0 {
		c.unseat(s)
	}
	for _, uuid := range a.GPUs {
		if s.node.Counts && s.node.device(uuid) < 0 {
			loose++
		} else if seat, ok := c.seatOn(s.id, uuid, a.Share); ok {
			h.seats = append(h.seats, seat)
		} else {
			c.lack(e, want{node: a.Node, uuid: uuid, share: a.Share})
		}
	}
	c.holdPorts(&h, portList(a.Port))
	h.loose, h.firm = loose, len(h.seats)
	c.join(e, h)
}

// seat takes what is asked for on a node, and of its devices those that are
// named. It is false where that is not free.
func (c *Core) seat(ask placement.Ask, on placement.NodeID, devices ...string) (placement.Seat, bool) {
	class, err := c.cluster.Class(ask)
	if err != nil {
		return placement.Seat{}, false
	}
	seat, err := c.cluster.Take(class, on, devices...)
	return seat, err == nil
}

// seatOn takes a device of a node, or a part of it. It is false where that is
// not free.
func (c *Core) seatOn(on placement.NodeID, uuid string, part Share) (placement.Seat, bool) {
	if part.some() {
		return c.seatShare(on, uuid, part)
	}
	return c.seat(placement.Ask{GPUs: 1}, on, uuid)
}

// lack notes that an entry was not given what it holds.
func (c *Core) lack(e *entry, w want) {
	e.lacks = append(e.lacks, w)
	c.lacking[e.req.UID] = true
}

// join adds to what an entry holds.
func (c *Core) join(e *entry, h held) {
	h.charged = c.charge(&h)
	c.tree.Charge(e.queue, e.user, h.charged)
	e.held = append(e.held, h)
	c.shunners += truth(h.kin.shunning())
	if h.extra {
		e.extras++
		c.extras++
	}
	h.site.milli += h.milli()
	if h.loose > 0 {
		h.site.loose += int64(h.loose)
		c.stirred[h.site] = true
	}
	if at, found := slices.BinarySearchFunc(h.site.here, e, byUID); !found {
		h.site.here = slices.Insert(h.site.here, at, e)
	}
	c.broken(h.site)
}

func (c *Core) holdPorts(h *held, ports []int32) {
	for _, p := range ports {
		h.site.ports[p]++
		h.ports = append(h.ports, p)
	}
}

// release gives back what one member holds.
func (c *Core) release(e *entry, h *held) {
	h.site.milli -= h.milli()
	if h.site.loose > 0 {
		h.site.loose -= int64(h.loose)
		c.stirred[h.site] = true
	}
	c.shunners -= truth(h.kin.shunning())
	if h.extra {
		e.extras--
		c.extras--
		h.extra = false
	}
	c.tree.Refund(e.queue, e.user, h.charged)
	for _, s := range h.seats {
		c.cluster.Release(s)
	}
	for _, p := range h.ports {
		if h.site.ports[p]--; h.site.ports[p] <= 0 {
			delete(h.site.ports, p)
		}
	}
	h.seats, h.ports, h.loose, h.firm = nil, nil, 0, 0
	for i := range e.held {
		if o := &e.held[i]; o != h && o.site == h.site && len(o.seats) > 0 {
			return
		}
	}
	if at, found := slices.BinarySearchFunc(h.site.here, e, byUID); found {
		h.site.here = slices.Delete(h.site.here, at, at+1)
	}
	c.broken(h.site)
}
