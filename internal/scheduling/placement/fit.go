package placement

import (
	"math"
	"math/bits"
)

// portion is what a share takes of a device, in milli and MiB, and whether the
// device could give that if it were free.
func (a *Ask) portion(d *device) (milli int32, mib int64, ok bool) {
	m, b := a.ShareMilli, a.ShareMiB
	if b > 0 {
		if b > d.memory {
			return 0, 0, false
		}
		if m == 0 {
			m = max(1, (b*Whole+d.memory-1)/d.memory)
		}
	} else {
		b = m * d.memory / Whole
	}
	return int32(m), b, true
}

// has says whether so much is left of the device.
func (d *device) has(milli int32, mib int64) bool {
	return d.free >= milli && (mib == 0 || d.freeMiB >= mib)
}

// fits is how many members of the class the node could take now.
func (c *Cluster) fits(k *class, id NodeID) int32 {
	n := &c.nodes[id]
	if !n.present || n.blocked || !c.eligible(k.rule, id) {
		return 0
	}
	a := &k.ask
	limit := int64(math.MaxInt32)
	limit = atMost(limit, n.cpu, a.MilliCPU)
	limit = atMost(limit, n.memory, a.MemoryBytes)
	limit = atMost(limit, n.pods, a.Pods)
	for _, o := range k.other {
		have := int64(0)
		if o.resource < len(n.other) {
			have = n.other[o.resource]
		}
		limit = atMost(limit, have, o.value)
	}
	if limit <= 0 || !a.wantsGPU() {
		return int32(max(0, limit))
	}
	if a.GPUs > 0 {
		return int32(min(limit, n.wholeGroups(k)))
	}
	return int32(min(limit, n.shares(k)))
}

// atMost bounds the limit by how often want goes into have.
func atMost(limit, have, want int64) int64 {
	if want <= 0 {
		return limit
	}
	if have < want {
		return 0
	}
	return min(limit, have/want)
}

// wholeGroups is how many times the class's whole GPUs are free on the node,
// each time of one model.
func (n *node) wholeGroups(k *class) int64 {
	groups := 0
	for _, kind := range n.kinds {
		if k.models.tier[kind] >= 0 {
			groups += bits.OnesCount64(n.wholes(kind)) / k.ask.GPUs
		}
	}
	return int64(groups)
}

// wholes is the mask of the usable devices of a model that nobody uses.
func (n *node) wholes(kind int16) uint64 {
	var free uint64
	for u := n.usable; u != 0; u &= u - 1 {
		i := bits.TrailingZeros64(u)
		if d := &n.devices[i]; d.free == Whole && d.model == kind {
			free |= 1 << i
		}
	}
	return free
}

// shares is how many of the class's shares find room on the node's devices.
func (n *node) shares(k *class) int64 {
	count := int64(0)
	for u := n.usable; u != 0; u &= u - 1 {
		d := &n.devices[bits.TrailingZeros64(u)]
		if k.models.tier[d.model] < 0 {
			continue
		}
		milli, mib, ok := k.ask.portion(d)
		if !ok {
			continue
		}
		room := atMost(math.MaxInt32, int64(d.free), int64(milli))
		count += atMost(room, d.freeMiB, mib)
	}
	return count
}

// Fits is how many members of the class the node could take now.
func (c *Cluster) Fits(k Class, id NodeID) int { return int(c.fits(&c.classes[k], id)) }

// wholeModel is the model of which the class's whole GPUs are taken on a node
// where they fit: the most wanted that has enough, then the one with the
// fewest free, then the one that comes first.
func (n *node) wholeModel(k *class) (kind int16, free uint64) {
	kind = -1
	var tier int16
	for _, m := range n.kinds {
		t := k.models.tier[m]
		if t < 0 || kind >= 0 && t > tier {
			continue
		}
		w := n.wholes(m)
		if bits.OnesCount64(w) < k.ask.GPUs {
			continue
		}
		if kind < 0 || t < tier || bits.OnesCount64(w) < bits.OnesCount64(free) {
			kind, tier, free = m, t, w
		}
	}
	return kind, free
}

// together picks so many of the free devices, from as few groups of linked
// devices as can be: the group with the fewest free that suffices, or else the
// largest first. It says whether they are all of one group, or the node has no
// groups.
func (n *node) together(free uint64, want int) (picked uint64, one bool) {
	if want == 1 && n.linkless() {
		return free & -free, true
	}
	for want > 0 {
		best, size := uint64(0), 0
		for rest := free; rest != 0; {
			group := n.linked(rest)
			rest &^= group
			count := bits.OnesCount64(group)
			if best == 0 || count >= want && (size < want || count < size) || count < want && size < want && count > size {
				best, size = group, count
			}
		}
		one = picked == 0 && size >= want
		for ; best != 0 && want > 0; want-- {
			picked |= best & -best
			free &^= best & -best
			best &= best - 1
		}
	}
	return picked, one
}

// linkless says whether no devices of the node are linked.
func (n *node) linkless() bool {
	for i := range n.devices {
		if n.devices[i].link != 0 {
			return false
		}
	}
	return true
}

// linked are those of the devices that are in one group with the first of
// them. Devices without links count as one group.
func (n *node) linked(of uint64) uint64 {
	link := n.devices[bits.TrailingZeros64(of)].link
	var group uint64
	for m := of; m != 0; m &= m - 1 {
		if i := bits.TrailingZeros64(m); n.devices[i].link == link {
			group |= 1 << i
		}
	}
	return group
}
