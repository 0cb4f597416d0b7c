package scheduling

import (
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// A node that counts its GPUs gives them names of its own making, so that the
// tables and the ledger are the same as everywhere. Who was planned here holds
// some by name. Who was not, such as a pod that another scheduler put there,
// holds so many of the others, it does not matter which: the last that are free,
// in the order of the UIDs of those who hold them. Who these are thus follows
// from what is held alone, in whatever order it was shown, and is found anew
// whenever that changes.

// rename notes that a site's devices get other names, or are others.
func (c *Core) rename(s *site, n *Node) {
	if s.loose > 0 {
		c.stirred[s] = true
	}
	if (s.node.Counts || n.Counts) && len(s.here) > 0 &&
		(s.node.Counts != n.Counts || !slices.EqualFunc(s.node.Devices, n.Devices, Device.same)) {
		c.renamed[s] = true
	}
}

// retake gives all that is held on sites whose devices have other names to its
// holders anew: a name that is gone stands for any device.
func (c *Core) retake() {
	var again []*entry
	for s := range c.renamed {
		again = append(again, s.here...)
		c.stirred[s] = true
	}
	clear(c.renamed)
	slices.SortFunc(again, byUID)
	again = slices.Compact(again)
	for _, e := range again {
		c.giveUp(e)
	}
	for _, e := range again {
		c.takeAll(e)
	}
}

// settle seats those who hold devices without a name. It comes after all that
// have one are seated.
func (c *Core) settle() {
	for s := range c.stirred {
		c.unseat(s)
		if c.known(s) {
			c.seatLoose(s)
		}
	}
	clear(c.stirred)
}

// unseat takes the devices without a name away from their holders, until
// [Core.settle].
func (c *Core) unseat(s *site) {
	if s.loose == 0 {
		return
	}
	c.stirred[s] = true
	for _, e := range s.here {
		for i := range e.held {
			h := &e.held[i]
			if h.site != s || len(h.seats) == h.firm {
				continue
			}
			s.milli -= h.milli()
			for _, seat := range h.seats[h.firm:] {
				c.cluster.Release(seat)
			}
			h.seats = h.seats[:h.firm]
			s.milli += h.milli()
			c.recharge(e, h)
		}
	}
}

// seatLoose gives holders of devices without a name the last that are free.
func (c *Core) seatLoose(s *site) {
	if s.loose == 0 {
		return
	}
	devices := slices.Clone(s.node.Devices)
	slices.SortStableFunc(devices, func(a, b Device) int { return b.Index - a.Index })
	for _, e := range s.here {
		for i := range e.held {
			h := &e.held[i]
			if h.site != s || h.loose == 0 {
				continue
			}
			s.milli -= h.milli()
			for len(devices) > 0 && len(h.seats)-h.firm < int(h.loose) {
				seat, free := c.seat(placement.Ask{GPUs: 1}, s.id, devices[0].UUID)
				devices = devices[1:]
				if free {
					h.seats = append(h.seats, seat)
				}
			}
			s.milli += h.milli()
			c.recharge(e, h)
			if len(e.req.Roles) == 0 {
				e.gpus = 0
				for k := range e.held {
					e.gpus += e.held[k].milli()
				}
			}
		}
	}
}

// recharge charges a queue for what a member holds now.
func (c *Core) recharge(e *entry, h *held) {
	c.tree.Refund(e.queue, e.user, h.charged)
	h.charged = c.charge(h)
	c.tree.Charge(e.queue, e.user, h.charged)
}
