package placement

import (
	"fmt"
	"math/bits"
)

// Weight is a kind of ask and how common it is, in any unit.
type Weight struct {
	Ask   Ask
	Share int64
}

// kind is a typical ask, as fragmentation looks at it.
type kind struct {
	cpu, memory int64
	milli       int32
	gpus        int
	share       int64
	models      modelSet
}

// workload is what usually comes.
type workload struct {
	// published are the kinds as FGD looks at them, total the sum of their
	// shares.
	published []kind
	total     int64
	// patterns are the same for the policy Muster.
	patterns patterns
	// epoch numbers the workloads.
	epoch uint32
}

// SetWorkload says what usually comes: what is left on the nodes is judged by
// how much of it such asks could use. Every score is worked out again when it
// is next needed, so it is for seldom use, such as when the mix of recent
// arrivals has moved. Only CPU, memory, GPUs and models of the asks count.
func (c *Cluster) SetWorkload(w []Weight) error {
	total := int64(0)
	for i := range w {
		if err := w[i].Ask.Check(); err != nil {
			return fmt.Errorf("workload %d: %w", i, err)
		}
		if w[i].Share <= 0 || w[i].Share > MaxAmount/int64(len(w)) {
			return fmt.Errorf("workload %d: its share is %d; shares are positive and their sum is at most %d", i, w[i].Share, int64(MaxAmount))
		}
		total += w[i].Share
	}
	if total == 0 {
		c.useDefaultWorkload()
		return nil
	}
	down := uint(max(0, bits.Len64(uint64(total))-20))
	work := workload{epoch: c.work.epoch + 1}
	var kinds []kind
	for i := range w {
		k := c.typical(&w[i].Ask, max(1, w[i].Share>>down))
		kinds = append(kinds, k)
		work.total += k.share
		// As published, memory does not count.
		k.memory = 0
		work.published = append(work.published, k)
	}
	work.patterns = arrange(kinds)
	c.work = work
	c.cells = make([]tally, len(work.patterns.models)*len(work.patterns.sizes))
	if len(c.byRank) > 0 {
		c.Weigh()
	}
	return nil
}

// typical is the ask as fragmentation looks at it. A share by memory counts as
// that part of the largest device that is known now, or a half.
func (c *Cluster) typical(a *Ask, share int64) kind {
	k := kind{cpu: a.MilliCPU, memory: a.MemoryBytes, milli: Whole, gpus: a.GPUs, share: share, models: newModelSet(a.Models, false)}
	if a.share() {
		k.gpus, k.milli = 1, int32(a.ShareMilli)
		if k.milli == 0 {
			largest := int64(0)
			for i := range c.nodes {
				n := &c.nodes[i]
				for u := n.usable; n.present && u != 0; u &= u - 1 {
					largest = max(largest, n.devices[bits.TrailingZeros64(u)].memory)
				}
			}
			k.milli = Whole / 2
			if largest > 0 {
				k.milli = int32(min(Whole, max(1, (a.ShareMiB*Whole+largest-1)/largest)))
			}
		}
	}
	for m := range c.models {
		k.models.learn(c.models[m].name)
	}
	return k
}

// learn adds the next model.
func (w *workload) learn(name string) {
	for i := range w.published {
		w.published[i].models.learn(name)
	}
	w.patterns.learn(name)
}

// shape is what is left of a node, and, after take, what would be.
type shape struct {
	cpu, memory int64
	count       int
	at          [MaxDevices]int8 // device row to index
	free        [MaxDevices]int32
	model       [MaxDevices]int16
}

// read takes the node as it is.
func (s *shape) read(n *node) {
	s.cpu, s.memory, s.count = n.cpu, n.memory, 0
	for u := n.usable; u != 0; u &= u - 1 {
		i := bits.TrailingZeros64(u)
		s.at[i] = int8(s.count)
		s.free[s.count] = n.devices[i].free
		s.model[s.count] = n.devices[i].model
		s.count++
	}
}

// take takes what a seat would.
func (s *shape) take(k *class, devices uint64, milli int32) {
	s.cpu -= k.ask.MilliCPU
	s.memory -= k.ask.MemoryBytes
	for m := devices; m != 0; m &= m - 1 {
		s.free[s.at[bits.TrailingZeros64(m)]] -= milli
	}
}

// fragment is how many milli of the shape's devices the kinds cannot use,
// summed over the kinds by their share.
func (s *shape) fragment(kinds []kind) int64 {
	total := int64(0)
	for _, f := range s.free[:s.count] {
		total += int64(f)
	}
	if total == 0 {
		return 0
	}
	sum := int64(0)
	for i := range kinds {
		k := &kinds[i]
		if k.gpus == 0 || s.cpu < k.cpu || s.memory < k.memory {
			sum += k.share * total
			continue
		}
		enough, small := 0, int64(0)
		for j, f := range s.free[:s.count] {
			if f < k.milli || k.models.tier[s.model[j]] < 0 {
				small += int64(f)
			} else {
				enough++
			}
		}
		if enough < k.gpus {
			small = total
		}
		sum += k.share * small
	}
	return sum
}

// DefaultWorkload is what is assumed of clusters of which nothing is known
// yet: single GPUs above all, some shares, some whole machines, some work
// without GPUs. Its shares add up to 100. A caller that learns from arrivals
// adds it with a small weight, so that what has not come yet is not thought
// never to come.
func DefaultWorkload() []Weight {
	const gib = 1 << 30
	return []Weight{
		{Ask{MilliCPU: 8000, MemoryBytes: 32 * gib, GPUs: 1}, 40},
		{Ask{MilliCPU: 4000, MemoryBytes: 16 * gib, ShareMilli: 500}, 12},
		{Ask{MilliCPU: 2000, MemoryBytes: 8 * gib, ShareMilli: 250}, 8},
		{Ask{MilliCPU: 16000, MemoryBytes: 64 * gib, GPUs: 2}, 8},
		{Ask{MilliCPU: 40000, MemoryBytes: 128 * gib, GPUs: 4}, 8},
		{Ask{MilliCPU: 64000, MemoryBytes: 256 * gib, GPUs: 8}, 4},
		{Ask{MilliCPU: 96000, MemoryBytes: 384 * gib, GPUs: 8}, 4},
		{Ask{MilliCPU: 4000, MemoryBytes: 16 * gib}, 16},
	}
}

// useDefaultWorkload sets it; it is valid by construction.
func (c *Cluster) useDefaultWorkload() { _ = c.SetWorkload(DefaultWorkload()) }
