package placement

import (
	"math"
	"math/bits"
)

// choice is the best way to seat a class on one node, and how good it is.
type choice struct {
	devices uint64
	milli   int32
	mib     int64
	score   int64
}

// Bits of a score, from the top: how wanted the model is, how wanted the node
// is, then, under the policy Muster, what the seat does to the node.
const (
	tierBits  = 48
	modelBits = 57
	// maxTier is how many models are told apart by how wanted they are.
	maxTier = 62
)

// MostLeaning is the most that a Leaning may say, for and against a node.
const MostLeaning = 255

// unwanted is what a model of that tier loses.
func unwanted(tier int16) int64 { return int64(min(tier, maxTier)) << modelBits }

// choose finds the best devices of a node on which the class fits. It depends
// on the ask, the node's row and the workload alone.
func (c *Cluster) choose(k *class, n *node) choice {
	var ch choice
	switch {
	case k.ask.GPUs > 0:
		ch = c.chooseWhole(k, n)
	case k.ask.share():
		ch = c.chooseShare(k, n)
	default:
		ch = c.chooseBare(k, n)
	}
	return ch
}

// chooseBare scores a node for an ask without GPUs.
func (c *Cluster) chooseBare(k *class, n *node) choice {
	switch k.ask.Policy {
	case FGD:
		return choice{score: c.fgdStep(k, n, 0, 0)}
	case BestFit:
		return choice{score: bestFit(k, n, 0)}
	case Spread:
		return choice{score: spread(k, n, 0)}
	case Random:
		return choice{}
	}
	if n.usable == 0 {
		// No GPU suffers here: the tightest of such nodes.
		return choice{score: 1<<(tierBits-1) - (n.cpu-k.ask.MilliCPU)/1000}
	}
	return choice{score: c.own(k, n, 0, 0)}
}

// chooseWhole picks whole devices.
func (c *Cluster) chooseWhole(k *class, n *node) choice {
	kind, free := n.wholeModel(k)
	ch := choice{milli: Whole}
	var one bool
	ch.devices, one = n.together(free, k.ask.GPUs)
	taken := int64(k.ask.GPUs) * Whole
	switch k.ask.Policy {
	case FGD:
		ch.score = c.fgdStep(k, n, ch.devices, Whole)
	case BestFit:
		ch.score = bestFit(k, n, taken)
	case Spread:
		ch.score = spread(k, n, taken)
	case Random:
	default:
		ch.score = c.own(k, n, ch.devices, Whole)
		if !one {
			ch.score--
		}
	}
	ch.score -= unwanted(k.models.tier[kind])
	return ch
}

// chooseShare picks the device for a share: of the most wanted models, the one
// that the policy likes best, then the one that comes first.
func (c *Cluster) chooseShare(k *class, n *node) choice {
	best := choice{score: math.MinInt64}
	for u := n.usable; u != 0; u &= u - 1 {
		i := bits.TrailingZeros64(u)
		d := &n.devices[i]
		tier := k.models.tier[d.model]
		if tier < 0 {
			continue
		}
		milli, mib, ok := k.ask.portion(d)
		if !ok || !d.has(milli, mib) {
			continue
		}
		if n.alike(i, u) {
			continue
		}
		ch := choice{devices: 1 << i, milli: milli, mib: mib}
		switch k.ask.Policy {
		case FGD:
			ch.score = c.fgdStep(k, n, ch.devices, milli)
		case BestFit:
			// Nodes are compared below; on one node, the tightest device.
			ch.score = -int64(d.free)
		case Spread:
			ch.score = int64(d.free)
		case Random:
			// Where it matters, anyDevice draws.
		default:
			ch.score = c.own(k, n, ch.devices, milli)
		}
		ch.score -= unwanted(tier)
		if ch.score > best.score {
			best = ch
		}
	}
	lost := unwanted(k.models.tier[n.devices[bits.TrailingZeros64(best.devices)].model])
	switch k.ask.Policy {
	case BestFit:
		best.score = bestFit(k, n, int64(best.milli)) - lost
	case Spread:
		best.score = spread(k, n, int64(best.milli)) - lost
	}
	return best
}

// alike says whether an earlier usable device of the node is in the same state
// as device i, so that i need not be looked at. Rest is the mask of the usable
// devices from i on.
func (n *node) alike(i int, rest uint64) bool {
	d := &n.devices[i]
	for u := n.usable &^ rest; u != 0; u &= u - 1 {
		e := &n.devices[bits.TrailingZeros64(u)]
		if e.free == d.free && e.model == d.model && e.freeMiB == d.freeMiB && e.memory == d.memory {
			return true
		}
	}
	return false
}

// freeMilli is what is left of all usable devices.
func (n *node) freeMilli() int64 {
	sum := int64(0)
	for u := n.usable; u != 0; u &= u - 1 {
		sum += int64(n.devices[bits.TrailingZeros64(u)].free)
	}
	return sum
}

// bestFit is the published score: how little is left, CPU and GPU alike, as
// parts of 128 CPUs and 8 GPUs, in hundredths cut to an integer.
func bestFit(k *class, n *node, milli int64) int64 {
	cpu := float64(n.cpu-k.ask.MilliCPU) / 128000
	gpu := float64(n.freeMilli()-milli) / 8000
	return int64(100 * (1 - float64(0.5*cpu) - float64(0.5*gpu)))
}

// spread is how much is left, in thousandths of the node, CPU and GPU alike.
func spread(k *class, n *node, milli int64) int64 {
	s := (n.cpu - k.ask.MilliCPU) * 1000 / max(1, n.spec.MilliCPU)
	if whole := int64(bits.OnesCount64(n.usable)) * Whole; whole > 0 {
		s += (n.freeMilli() - milli) * 1000 / whole
	}
	return s
}

// fgdStep is the published score of fragmentation gradient descent: an integer
// from 0 to 100, above 50 where the seat makes less of the node useless.
func (c *Cluster) fgdStep(k *class, n *node, devices uint64, milli int32) int64 {
	s := &c.shape
	s.read(n)
	if n.fragVersion != n.version || n.fragEpoch != c.work.epoch {
		n.fragVersion, n.fragEpoch = n.version, c.work.epoch
		n.frag = s.fragment(c.work.published)
	}
	s.take(k, devices, milli)
	delta := float64(n.frag-s.fragment(c.work.published)) / float64(c.work.total) / Whole
	return int64(100 / (1 + math.Exp(-delta)))
}

// own is the score of the policy Muster: how little of what the usual asks
// could use is lost.
func (c *Cluster) own(k *class, n *node, devices uint64, milli int32) int64 {
	s := &c.shape
	s.read(n)
	if n.worthVersion != n.version || n.worthEpoch != c.work.epoch {
		n.worthVersion, n.worthEpoch = n.version, c.work.epoch
		n.worth = c.value(s)
	}
	s.take(k, devices, milli)
	return c.value(s) - n.worth
}
