package placement

import "math/bits"

// Scope says where to look.
type Scope struct {
	// Domain is where the seat must be; NoDomain is everywhere.
	Domain DomainID
	// Avoid are nodes that are not to be used; nil is none.
	Avoid *NodeSet
}

// Place finds the best node and devices for one member of the class and holds
// them. It says whether there is any.
func (c *Cluster) Place(k Class, in Scope) (Seat, bool) {
	id := c.bestNode(k, in)
	if id < 0 {
		return Seat{}, false
	}
	return c.sit(k, NodeID(id)), true
}

// PlaceMany places up to n members of the class, one after the other, and
// appends their seats. Fewer than n mean that no more fit.
func (c *Cluster) PlaceMany(k Class, n int, in Scope, dst []Seat) []Seat {
	for ; n > 0; n-- {
		s, ok := c.Place(k, in)
		if !ok {
			break
		}
		dst = append(dst, s)
	}
	return dst
}

// PlaceOn finds the best devices on one node and holds them. It says whether
// the class fits there.
func (c *Cluster) PlaceOn(k Class, id NodeID) (Seat, bool) {
	if c.fits(&c.classes[k], id) <= 0 {
		return Seat{}, false
	}
	return c.sit(k, id), true
}

// sit holds the best devices of a node on which the class fits.
func (c *Cluster) sit(k Class, id NodeID) Seat {
	cl, n := &c.classes[k], &c.nodes[id]
	ch := c.choose(cl, n)
	if cl.ask.Policy == Random && cl.ask.share() {
		ch = c.anyDevice(cl, n)
	}
	s := Seat{Node: id, Class: k, Devices: ch.devices, Milli: ch.milli, MiB: ch.mib}
	c.hold(&s, true)
	return s
}

// Best is the node on which Place would put the next member; nothing is held.
func (c *Cluster) Best(k Class, in Scope) (NodeID, bool) {
	id := c.bestNode(k, in)
	return NodeID(max(0, id)), id >= 0
}

// bestNode is the best node in the scope, or -1.
func (c *Cluster) bestNode(k Class, in Scope) int32 {
	cl := &c.classes[k]
	c.refresh(cl)
	t := &cl.table
	if cl.ask.Policy == Random {
		return c.anyNode(t, in)
	}
	if in.Domain == NoDomain {
		return t.best(c, 1, in.Avoid)
	}
	return c.bestAmong(t, c.nodesOf(in.Domain), in.Avoid)
}

// anyNode is a node in the scope by the draw, or -1.
func (c *Cluster) anyNode(t *table, in Scope) int32 {
	nodes := c.nodesOf(in.Domain)
	count := 0
	for _, id := range nodes {
		if t.fit[id] > 0 && !in.Avoid.Has(id) {
			count++
		}
	}
	if count == 0 {
		return -1
	}
	at := c.draw.below(count)
	for _, id := range nodes {
		if t.fit[id] > 0 && !in.Avoid.Has(id) {
			if at == 0 {
				return int32(id)
			}
			at--
		}
	}
	return -1
}

// anyDevice is a device of the node for a share, by the draw.
func (c *Cluster) anyDevice(k *class, n *node) choice {
	at := -1
	for {
		count := 0
		for u := n.usable; u != 0; u &= u - 1 {
			i := bits.TrailingZeros64(u)
			d := &n.devices[i]
			milli, mib, ok := k.ask.portion(d)
			if k.models.tier[d.model] < 0 || !ok || !d.has(milli, mib) {
				continue
			}
			if count == at {
				return choice{devices: 1 << i, milli: milli, mib: mib}
			}
			count++
		}
		if count == 0 {
			return choice{}
		}
		at = c.draw.below(count)
	}
}

// Room is how many members of the class alone fit in the scope now, counted up
// to atMost. It is exact.
func (c *Cluster) Room(k Class, in Scope, atMost int) int {
	cl := &c.classes[k]
	c.refresh(cl)
	t := &cl.table
	if in.Domain == NoDomain && in.Avoid.Len() == 0 {
		return int(min(t.room, int64(atMost)))
	}
	nodes := c.nodesOf(in.Domain)
	room := int64(0)
	for _, id := range nodes {
		if room >= int64(atMost) {
			break
		}
		if !in.Avoid.Has(id) {
			room += int64(t.fit[id])
		}
	}
	return int(min(room, int64(atMost)))
}

// draws is a small generator of numbers (splitmix64), so that they are the
// same everywhere and for ever.
type draws struct{ state uint64 }

func (d *draws) next() uint64 {
	d.state += 0x9e3779b97f4a7c15
	z := d.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below is a number from 0 to n-1. Its bias is below n/2^64.
func (d *draws) below(n int) int { return int(d.next() % uint64(n)) }
