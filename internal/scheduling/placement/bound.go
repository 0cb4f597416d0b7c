package placement

// Want is so many members of a class.
type Want struct {
	Class Class
	N     int
}

// warm is up to how many changed nodes a verdict brings a table up to date for.
const warm = 256

// CannotFit says whether n members of the class surely do not fit in the scope
// now. False means that they may. It looks at sums and histograms first, and
// at nodes only where what is remembered of them is nearly up to date.
func (c *Cluster) CannotFit(k Class, n int, in Scope) bool {
	if n <= 0 {
		return false
	}
	cl := &c.classes[k]
	if in.Domain != NoDomain && !mayHold(cl, n, c.DomainTotals(in.Domain)) || c.bound(cl, n) < int64(n) {
		return true
	}
	t := &cl.table
	end := c.forgotten + uint64(len(c.changed))
	if t.leaves >= len(c.nodes) && len(c.nodes) > 0 && t.epoch == c.work.epoch && t.read >= c.forgotten && end-t.read <= warm {
		return c.Room(k, in, n) < n
	}
	return false
}

// CannotFitAll says whether the wants together surely do not fit in the
// cluster now. False means that they may.
func (c *Cluster) CannotFitAll(wants []Want) bool { return c.CannotFitIn(wants, NoDomain) }

// CannotFitIn says whether the wants together surely do not fit in the domain
// now, from sums alone. False means that they may.
func (c *Cluster) CannotFitIn(wants []Want, d DomainID) bool {
	t := c.DomainTotals(d)
	if d != NoDomain {
		// Most domains that are too small are so for one of the wants.
		for _, w := range wants {
			if w.N > 0 && !mayHold(&c.classes[w.Class], w.N, t) {
				return true
			}
		}
	}
	var cpu, memory, pods, milli, whole int64
	for _, w := range wants {
		if w.N <= 0 {
			continue
		}
		if c.CannotFit(w.Class, w.N, Scope{Domain: d}) {
			return true
		}
		// No product overflows: each member fits the sums, as was just asked.
		a, n := &c.classes[w.Class].ask, int64(w.N)
		cpu += n * a.MilliCPU
		memory += n * a.MemoryBytes
		pods += n * a.Pods
		whole += n * int64(a.GPUs)
		milli += n * (int64(a.GPUs)*Whole + a.ShareMilli)
		if cpu > t.MilliCPU || memory > t.MemoryBytes || pods > t.Pods || whole > t.WholeFree || milli > t.FreeMilli {
			return true
		}
	}
	return false
}

// bound is an upper bound of how many members of the class fit, at least up to
// n, from sums and histograms.
func (c *Cluster) bound(k *class, n int) int64 {
	a, t := &k.ask, &c.total
	limit := int64(n)
	limit = atMost(limit, t.MilliCPU, a.MilliCPU)
	limit = atMost(limit, t.MemoryBytes, a.MemoryBytes)
	limit = atMost(limit, t.Pods, a.Pods)
	if t.Nodes == 0 {
		return 0
	}
	if limit == 0 || !a.wantsGPU() {
		return limit
	}
	room := int64(0)
	for i := range c.models {
		if k.models.tier[i] < 0 || room >= limit {
			continue
		}
		m := &c.models[i]
		switch {
		case a.GPUs > 0:
			for free := a.GPUs; free <= MaxDevices; free++ {
				room += int64(m.whole[free]) * int64(free/a.GPUs)
			}
		default:
			room += m.shareBound(a)
		}
	}
	return min(limit, room)
}

// mayHold says whether the sums of a domain allow n members of the class.
func mayHold(k *class, n int, t Totals) bool {
	a := &k.ask
	limit := int64(n)
	limit = atMost(limit, t.MilliCPU, a.MilliCPU)
	limit = atMost(limit, t.MemoryBytes, a.MemoryBytes)
	limit = atMost(limit, t.Pods, a.Pods)
	limit = atMost(limit, t.WholeFree, int64(a.GPUs))
	limit = atMost(limit, t.FreeMilli, a.ShareMilli)
	return t.Nodes > 0 && limit >= int64(n)
}

// MostOnOne is an upper bound of the wholly free devices of one node.
func (c *Cluster) MostOnOne() int {
	sum := 0
	for i := range c.models {
		for free := MaxDevices; free > 0; free-- {
			if c.models[i].whole[free] > 0 {
				sum += free
				break
			}
		}
	}
	return sum
}

// shareBound is an upper bound of the shares that the model's devices can take.
func (m *model) shareBound(a *Ask) int64 {
	room := int64(0)
	if a.ShareMilli > 0 {
		for free := a.ShareMilli; free <= Whole; free++ {
			if m.level[free] > 0 {
				room += int64(m.level[free]) * (free / a.ShareMilli)
			}
		}
	}
	if a.ShareMiB > 0 {
		byMemory := m.memory / a.ShareMiB
		if a.ShareMilli == 0 || byMemory < room {
			room = byMemory
		}
	}
	return room
}

// Obstacle is what keeps a class from a node, in the order in which it is
// looked for.
type Obstacle uint8

// The obstacles.
const (
	// Nothing: the class fits.
	Nothing Obstacle = iota
	// NodeGone: the node is not known.
	NodeGone
	// NodeBlocked: nothing new may be placed on the node.
	NodeBlocked
	// NotEligible: the ask's rule does not hold.
	NotEligible
	// NoSuchModel: the node has no usable GPU of a model that will do.
	NoSuchModel
	// TooFewGPUs: the node has fewer usable GPUs of one such model than are
	// asked for, or none with so much memory, even with nothing held.
	TooFewGPUs
	// NodeTooSmall: the node has too little CPU, memory, room for pods or
	// another resource, even with nothing held. Name says which.
	NodeTooSmall
	// GPUsHeld: too few GPUs are free.
	GPUsHeld
	// ShareHeld: no GPU has enough left.
	ShareHeld
	// ResourceHeld: too little of a resource is free. Name says which.
	ResourceHeld
	// Obstacles is how many there are.
	Obstacles
)

// Shortfall is what keeps a class from a node: what is there, and what is
// asked for, in the unit of the ask.
type Shortfall struct {
	Obstacle   Obstacle
	Name       string
	Have, Want int64
}

// Names of the resources in a Shortfall; other resources have their own.
const (
	NameCPU    = "cpu"
	NameMemory = "memory"
	NamePods   = "pods"
)

// Shortfall is the first obstacle that keeps the class from the node.
func (c *Cluster) Shortfall(k Class, id NodeID) Shortfall {
	cl, n := &c.classes[k], &c.nodes[id]
	switch {
	case !n.present:
		return Shortfall{Obstacle: NodeGone}
	case n.blocked:
		return Shortfall{Obstacle: NodeBlocked}
	case !c.eligible(cl.rule, id):
		return Shortfall{Obstacle: NotEligible, Name: cl.ask.Rule}
	}
	if s := n.deviceObstacle(cl, true); s.Obstacle != Nothing {
		return s
	}
	if s := c.amountObstacle(cl, n, true); s.Obstacle != Nothing {
		return s
	}
	if s := n.deviceObstacle(cl, false); s.Obstacle != Nothing {
		return s
	}
	return c.amountObstacle(cl, n, false)
}

// amountObstacle is what the node has too little of, of all that it has or of
// what is free.
func (c *Cluster) amountObstacle(k *class, n *node, empty bool) Shortfall {
	o := ResourceHeld
	cpu, memory, pods := n.cpu, n.memory, n.pods
	if empty {
		o = NodeTooSmall
		cpu, memory, pods = n.spec.MilliCPU, n.spec.MemoryBytes, n.spec.Pods
	}
	short := func(have, want int64) bool { return want > 0 && have < want }
	switch a := &k.ask; {
	case short(cpu, a.MilliCPU):
		return Shortfall{o, NameCPU, cpu, a.MilliCPU}
	case short(memory, a.MemoryBytes):
		return Shortfall{o, NameMemory, memory, a.MemoryBytes}
	case short(pods, a.Pods):
		return Shortfall{o, NamePods, pods, a.Pods}
	}
	for i, r := range k.other {
		have := int64(0)
		if empty {
			for _, x := range n.spec.Other {
				if x.Name == k.ask.Other[i].Name {
					have = x.Value
				}
			}
		} else if r.resource < len(n.other) {
			have = n.other[r.resource]
		}
		if short(have, r.value) {
			return Shortfall{o, k.ask.Other[i].Name, have, r.value}
		}
	}
	return Shortfall{}
}

// deviceObstacle is what keeps the class from the node's devices, as if nothing
// were held or as it is.
func (n *node) deviceObstacle(k *class, empty bool) Shortfall {
	a := &k.ask
	if !a.wantsGPU() {
		return Shortfall{}
	}
	most, found, best := int64(0), false, int64(0)
	enough := false
	for _, m := range n.kinds {
		if k.models.tier[m] < 0 {
			continue
		}
		found = true
		count := int64(0)
		for i := range n.devices {
			d := &n.devices[i]
			if d.model != m || !d.usable() {
				continue
			}
			if a.GPUs > 0 {
				if empty || d.free == Whole {
					count++
				}
				continue
			}
			milli, mib, ok := a.portion(d)
			if empty {
				enough = enough || ok
				best = max(best, d.memory)
				continue
			}
			enough = enough || ok && d.has(milli, mib)
			if a.ShareMilli > 0 {
				best = max(best, int64(d.free))
			} else {
				best = max(best, d.freeMiB)
			}
		}
		most = max(most, count)
	}
	switch {
	case !found:
		return Shortfall{Obstacle: NoSuchModel}
	case a.GPUs > 0 && most < int64(a.GPUs):
		return Shortfall{Obstacle: pickObstacle(empty, TooFewGPUs, GPUsHeld), Have: most, Want: int64(a.GPUs)}
	case a.share() && !enough:
		want := a.ShareMilli
		if want == 0 || empty {
			want = a.ShareMiB
		}
		return Shortfall{Obstacle: pickObstacle(empty, TooFewGPUs, ShareHeld), Have: best, Want: want}
	}
	return Shortfall{}
}

func pickObstacle(empty bool, a, b Obstacle) Obstacle {
	if empty {
		return a
	}
	return b
}

// Obstacles counts the nodes in the scope by the first obstacle that keeps the
// class from each. It looks at every node.
func (c *Cluster) Obstacles(k Class, in Scope) [Obstacles]int {
	var count [Obstacles]int
	nodes := c.nodesOf(in.Domain)
	for _, id := range nodes {
		if c.nodes[id].present && !in.Avoid.Has(id) {
			count[c.Shortfall(k, id).Obstacle]++
		}
	}
	return count
}
