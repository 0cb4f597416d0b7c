package placement

import (
	"math/bits"
	"slices"
)

// The policy Muster.
//
// What is left of a node is judged by what the usual asks could do with it,
// kind by kind, in two ways:
//
//   - room: how much of it copies of the kind could use until no more fit. CPU
//     and GPUs then run out together, and what is left of a shared GPU is worth
//     what can be paired with it. A kind counts by its share among arrivals,
//     and by the square of how many times larger all that is free is than the
//     room that the whole cluster has for it: what is scarce for somebody (a
//     model, whole machines) is spared by everybody else.
//   - reach: how much of it is on devices where one more of the kind fits, as
//     in FGD. A kind counts by its share alone.
//
// A seat's score is how little of both it costs.

// Sums of the kinds' weights for room, while nothing is scarce, and for reach;
// and how many times its share a kind may count for being scarce. A score then
// stays below tierBits.
const (
	roomWeight  = 1 << 20
	reachWeight = 5 * roomWeight
	scarcest    = 1000
)

// patterns are the typical asks, arranged for counting.
type patterns struct {
	// sizes are the distinct amounts of one device that are asked for.
	sizes []int32
	// usable is, for each size, how much of a device copies of it could use,
	// by the device's free milli.
	usable [][Whole + 1]int16
	kinds  []pattern
	// total is the sum of their shares.
	total int64
	// models are the distinct sets of models.
	models []modelSet
}

// pattern is a typical ask.
type pattern struct {
	cpu, memory int64
	size        int16 // of patterns.sizes
	set         int16 // of patterns.models
	gpus        int32
	milli       int32
	share       int64 // among arrivals
	room, reach int64 // weights
}

// maxPatterns bounds the work of one score; less common asks beyond it are
// not looked at.
const maxPatterns = 256

// arrange makes patterns of the typical asks that want GPUs.
func arrange(kinds []kind) patterns {
	var p patterns
	for i := range kinds {
		k := &kinds[i]
		if k.gpus == 0 {
			continue
		}
		size := slices.Index(p.sizes, k.milli)
		if size < 0 {
			size = len(p.sizes)
			p.sizes = append(p.sizes, k.milli)
			var row [Whole + 1]int16
			for free := range row {
				row[free] = int16(int32(free) / k.milli * k.milli)
			}
			p.usable = append(p.usable, row)
		}
		set := slices.IndexFunc(p.models, func(s modelSet) bool { return slices.Equal(s.names, k.models.names) })
		if set < 0 {
			set = len(p.models)
			p.models = append(p.models, k.models)
		}
		p.kinds = append(p.kinds, pattern{
			cpu: k.cpu, memory: k.memory, size: int16(size), set: int16(set), gpus: int32(k.gpus), milli: k.milli,
			share: k.share,
		})
	}
	// The most common first, so that the bound cuts the rare.
	slices.SortStableFunc(p.kinds, func(a, b pattern) int { return int(b.share - a.share) })
	p.kinds = p.kinds[:min(len(p.kinds), maxPatterns)]
	total := int64(0)
	for i := range p.kinds {
		total += p.kinds[i].share
	}
	p.total = total
	for i := range p.kinds {
		k := &p.kinds[i]
		k.room, k.reach = k.share*roomWeight/total, k.share*reachWeight/total
	}
	return p
}

// learn adds the next model.
func (p *patterns) learn(name string) {
	for i := range p.models {
		p.models[i].learn(name)
	}
}

// tally is, for one set of models and one size, what a shape has.
type tally struct {
	usable int32 // milli that copies could use
	reach  int32 // milli on devices with room for one
	enough int32 // devices with room for one
}

// fits says whether one of the kind fits the shape.
func (p *pattern) fits(s *shape, t *tally) bool {
	return t.enough >= p.gpus && s.cpu >= p.cpu && s.memory >= p.memory
}

// most is how many milli of a shape on which the kind fits its copies could
// use.
func (p *pattern) most(s *shape, t *tally) int64 {
	unit := int64(p.gpus) * int64(p.milli)
	most := int64(t.usable)
	if p.gpus > 1 {
		most -= most % unit
	}
	// Enough CPU and memory for all of it, or else for so many copies.
	if most*p.cpu > s.cpu*unit {
		most = s.cpu / p.cpu * unit
	}
	if most*p.memory > s.memory*unit {
		most = s.memory / p.memory * unit
	}
	return most
}

// tallies counts for every pair of a set of models and a size that occurs.
func (p *patterns) tallies(s *shape, out []tally) {
	for set := range p.models {
		tier := p.models[set].tier
		for size := range p.sizes {
			var t tally
			row, need := &p.usable[size], p.sizes[size]
			for j, f := range s.free[:s.count] {
				if f >= need && tier[s.model[j]] >= 0 {
					t.usable += int32(row[f])
					t.reach += f
					t.enough++
				}
			}
			out[set*len(p.sizes)+size] = t
		}
	}
}

// value is what the usual asks could do with the shape, weighed.
func (c *Cluster) value(s *shape) int64 {
	if s.count == 0 {
		return 0
	}
	p := &c.work.patterns
	cells := c.cells[:len(p.models)*len(p.sizes)]
	p.tallies(s, cells)
	sum := int64(0)
	for i := range p.kinds {
		k := &p.kinds[i]
		if t := &cells[int(k.set)*len(p.sizes)+int(k.size)]; k.fits(s, t) {
			sum += k.room*k.most(s, t) + k.reach*int64(t.reach)
		}
	}
	return sum
}

// Weigh works out anew how scarce the cluster's room is for each of the usual
// asks. What it finds depends on what is free now alone. It looks at every
// node, and every score is worked out again when it is next needed, so it is
// for seldom use: when some hundredth part of the cluster's GPUs has changed
// hands.
func (c *Cluster) Weigh() {
	p := &c.work.patterns
	room := make([]int64, len(p.kinds))
	cells := c.cells[:len(p.models)*len(p.sizes)]
	for id := range c.nodes {
		n := &c.nodes[id]
		if !n.present || n.blocked || n.usable == 0 {
			continue
		}
		c.shape.read(n)
		p.tallies(&c.shape, cells)
		for i := range p.kinds {
			k := &p.kinds[i]
			if t := &cells[int(k.set)*len(p.sizes)+int(k.size)]; k.fits(&c.shape, t) {
				room[i] += k.most(&c.shape, t)
			}
		}
	}
	for i := range p.kinds {
		k := &p.kinds[i]
		// At least one copy, so that nothing is divided by zero.
		left := max(room[i], int64(k.gpus)*int64(k.milli))
		scarce := max(1, float64(c.total.FreeMilli)/float64(left))
		k.room = int64(float64(k.share*roomWeight/p.total) * min(scarcest, scarce*scarce))
	}
	c.work.epoch++
}

// finger is a fingerprint of all that a score under the policy Muster depends
// on in a node's row.
func (n *node) finger() uint64 {
	h := uint64(n.cpu)*0x9e3779b97f4a7c15 ^ uint64(n.memory)
	for u := n.usable; u != 0; u &= u - 1 {
		d := &n.devices[bits.TrailingZeros64(u)]
		h = (h ^ h>>29) * 0xbf58476d1ce4e5b9
		h += uint64(d.free) | uint64(d.model)<<12 | uint64(d.link)<<28 | uint64(d.memory)<<36
		h = (h ^ h>>32) * 0x94d049bb133111eb
		h += uint64(d.freeMiB)
	}
	// 0 means nothing is remembered.
	return h ^ h>>31 | 1
}
