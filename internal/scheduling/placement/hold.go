package placement

import (
	"fmt"
	"math/bits"
	"slices"
)

// Seat is what one member holds. It is a plain value: whoever has it releases
// it, once.
type Seat struct {
	Node  NodeID
	Class Class
	// Devices has bit i set for device row i of the node.
	Devices uint64
	// Milli is what is held of each device, and MiB what a share holds of its
	// device's memory. A whole device is 1,000 milli and whatever its memory is.
	Milli int32
	MiB   int64
}

// step is an entry of the undo log.
type step struct {
	seat          Seat
	took          bool
	before, after uint64 // versions of the row
}

// Mark is a moment to which Undo returns.
type Mark struct{ at, depth int }

// Mark opens a mark: until it is ended by Undo or Keep, what is placed, taken
// and released can be undone. Marks nest; ending one ends those inside it.
func (c *Cluster) Mark() Mark {
	m := Mark{len(c.undo), c.marks}
	c.marks++
	return m
}

// Undo ends the mark and undoes, last first, what was placed, taken and
// released since. Changes to nodes are not undone.
func (c *Cluster) Undo(m Mark) {
	for k := len(c.undo) - 1; k >= m.at; k-- {
		s := &c.undo[k]
		n := &c.nodes[s.seat.Node]
		unchanged := n.version == s.after
		c.move(&s.seat, !s.took)
		if unchanged {
			n.version = s.before
		} else {
			c.clock++
			n.version = c.clock
		}
		c.note(s.seat.Node)
	}
	c.undo = c.undo[:m.at]
	c.endMarks(m)
}

// Keep ends the mark and keeps what was done since.
func (c *Cluster) Keep(m Mark) { c.endMarks(m) }

// endMarks closes the mark and those inside it.
func (c *Cluster) endMarks(m Mark) {
	c.marks = m.depth
	if c.marks > 0 {
		return
	}
	c.undo = c.undo[:0]
	for _, id := range c.retiring {
		c.retire(id)
	}
	c.retiring = c.retiring[:0]
}

// hold takes what the seat says, or gives it back, and logs it.
func (c *Cluster) hold(s *Seat, take bool) {
	n := &c.nodes[s.Node]
	before := n.version
	c.move(s, take)
	c.touch(s.Node)
	if c.marks > 0 {
		c.undo = append(c.undo, step{*s, take, before, n.version})
	}
}

// move changes the row's amounts and all sums by the seat.
func (c *Cluster) move(s *Seat, take bool) {
	n, k := &c.nodes[s.Node], &c.classes[s.Class]
	c.account(n, -1)
	sign := int64(1)
	if take {
		sign = -1
	}
	n.cpu += sign * k.ask.MilliCPU
	n.memory += sign * k.ask.MemoryBytes
	n.pods += sign * k.ask.Pods
	for _, o := range k.other {
		*n.otherAt(o.resource) += sign * o.value
	}
	for m := s.Devices; m != 0; m &= m - 1 {
		d := &n.devices[bits.TrailingZeros64(m)]
		d.free += int32(sign) * s.Milli
		d.freeMiB += sign * s.MiB
	}
	n.seats -= int32(sign)
	c.account(n, +1)
}

// Release gives back what the seat holds.
func (c *Cluster) Release(s Seat) {
	c.hold(&s, false)
	c.retire(s.Node)
}

// Take notes what is held already on a node that is known, such as by a member
// that was placed before a restart: CPU, memory and pods may go below zero, for
// what is so is so, but a device never holds more than it has. For an ask that
// wants GPUs, the devices are named by their UUIDs.
func (c *Cluster) Take(k Class, id NodeID, devices ...string) (Seat, error) {
	n, ask := &c.nodes[id], &c.classes[k].ask
	s := Seat{Node: id, Class: k}
	want := ask.GPUs
	if ask.share() {
		want = 1
	}
	if len(devices) != want {
		return s, fmt.Errorf("node %s: %d devices are named, and the ask takes %d", n.name, len(devices), want)
	}
	s.Milli = Whole
	for _, uuid := range devices {
		at := slices.Index(n.uuids, uuid)
		if at < 0 || n.devices[at].gone && !n.devices[at].held() {
			return s, fmt.Errorf("node %s has no device %s", n.name, uuid)
		}
		if s.Devices>>at&1 != 0 {
			return s, fmt.Errorf("node %s: device %s is named twice", n.name, uuid)
		}
		d := &n.devices[at]
		if ask.share() {
			var ok bool
			if s.Milli, s.MiB, ok = ask.portion(d); !ok {
				return s, fmt.Errorf("node %s: device %s has %d MiB of memory, and %d are asked for", n.name, uuid, d.memory, ask.ShareMiB)
			}
		}
		if !d.has(s.Milli, s.MiB) {
			return s, fmt.Errorf("node %s: device %s has %d milli and %d MiB left, and %d milli and %d MiB are to be taken", n.name, uuid, d.free, d.freeMiB, s.Milli, s.MiB)
		}
		s.Devices |= 1 << at
	}
	if want == 0 {
		s.Milli = 0
	}
	c.hold(&s, true)
	return s, nil
}

// SeatDevices appends the UUIDs of the seat's devices, in the order of their
// rows.
func (c *Cluster) SeatDevices(s Seat, dst []string) []string {
	for m := s.Devices; m != 0; m &= m - 1 {
		dst = append(dst, c.nodes[s.Node].uuids[bits.TrailingZeros64(m)])
	}
	return dst
}
