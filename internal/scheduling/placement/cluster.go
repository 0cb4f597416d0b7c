package placement

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// Options are the settings of a cluster.
type Options struct {
	// Seed is for the policy Random alone.
	Seed uint64
}

// Cluster is the table of nodes and what is remembered about them. It is used
// by one goroutine at a time.
type Cluster struct {
	nodes  []node
	byName map[string]NodeID
	byRank []NodeID // by name
	vacant []NodeID

	models    []model
	byModel   map[string]int16
	resources []string
	domains   []domain
	byPath    map[string]DomainID
	levels    [][]DomainID // by depth, by path

	classes []class
	byKey   map[string]Class
	rules   []rule
	byRule  map[string]int

	leanings  []leaning
	byLeaning map[string]int

	work  workload
	total Totals

	// clock numbers the states of all rows.
	clock uint64
	// changed are the rows that changed, in order; its first entry is number
	// forgotten.
	changed   []NodeID
	forgotten uint64

	undo  []step
	marks int
	// retiring are unknown nodes that wait for open marks to end.
	retiring []NodeID
	draw     draws
	// shape and cells are scratch.
	shape  shape
	cells  []tally
	bestIn []int32
}

// model is a row of the GPU models.
type model struct {
	name string
	// whole counts nodes by how many wholly free devices of the model they
	// have.
	whole [MaxDevices + 1]int32
	// level counts usable devices by their free milli.
	level [Whole + 1]int32
	// memory is the free MiB of usable devices.
	memory int64
}

// Totals are sums over the known nodes that are not blocked. What a node is
// short of does not count against others.
type Totals struct {
	Nodes                       int
	MilliCPU, MemoryBytes, Pods int64
	// Devices are the usable devices, WholeFree those of them that nobody
	// uses, and FreeMilli what is left of all of them.
	Devices, WholeFree, FreeMilli int64
}

// New is a cluster without nodes, with the built-in workload.
func New(o Options) *Cluster {
	c := &Cluster{
		byName:    map[string]NodeID{},
		byModel:   map[string]int16{},
		byPath:    map[string]DomainID{},
		byKey:     map[string]Class{},
		byRule:    map[string]int{},
		byLeaning: map[string]int{},
		domains:   []domain{{}},
		draw:      draws{state: o.Seed},
	}
	c.useDefaultWorkload()
	return c
}

// Totals are the sums of what is free now.
func (c *Cluster) Totals() Totals { return c.total }

// resource is the index of a named resource.
func (c *Cluster) resource(name string) int {
	if i := slices.Index(c.resources, name); i >= 0 {
		return i
	}
	c.resources = append(c.resources, name)
	return len(c.resources) - 1
}

// model is the index of a GPU model.
func (c *Cluster) model(name string) int16 {
	if i, ok := c.byModel[name]; ok {
		return i
	}
	i := int16(len(c.models))
	c.models = append(c.models, model{name: name})
	c.byModel[name] = i
	for k := range c.classes {
		c.classes[k].models.learn(name)
	}
	c.work.learn(name)
	return i
}

// touch gives a row's state a new version and notes that it changed.
func (c *Cluster) touch(id NodeID) {
	c.clock++
	c.nodes[id].version = c.clock
	c.note(id)
}

// note remembers that a row changed. Classes that are further behind than the
// memory reaches compare versions instead.
func (c *Cluster) note(id NodeID) {
	if len(c.changed) >= 1024+4*len(c.nodes) {
		half := len(c.changed) / 2
		c.forgotten += uint64(half)
		c.changed = c.changed[:copy(c.changed, c.changed[half:])]
	}
	c.changed = append(c.changed, id)
}

// account adds a row to the sums and histograms (sign +1), or takes it out
// (sign -1) before it changes.
func (c *Cluster) account(n *node, sign int64) {
	if !n.present || n.blocked {
		return
	}
	t := Totals{Nodes: 1, MilliCPU: max(0, n.cpu), MemoryBytes: max(0, n.memory), Pods: max(0, n.pods)}
	c.accountDevices(n, int32(sign), &t)
	c.total.add(&t, sign)
	for _, d := range n.domains {
		if d != NoDomain {
			c.domains[d].total.add(&t, sign)
		}
	}
}

// add adds what a node has (sign +1), or takes it away (sign -1).
func (t *Totals) add(n *Totals, sign int64) {
	t.Nodes += int(sign) * n.Nodes
	t.MilliCPU += sign * n.MilliCPU
	t.MemoryBytes += sign * n.MemoryBytes
	t.Pods += sign * n.Pods
	t.Devices += sign * n.Devices
	t.WholeFree += sign * n.WholeFree
	t.FreeMilli += sign * n.FreeMilli
}

// accountDevices is account for the devices of a row: it changes the
// histograms, and adds to the row's own sums.
func (c *Cluster) accountDevices(n *node, sign int32, t *Totals) {
	for _, kind := range n.kinds {
		m := &c.models[kind]
		whole := 0
		for u := n.usable; u != 0; u &= u - 1 {
			d := &n.devices[bits.TrailingZeros64(u)]
			if d.model != kind {
				continue
			}
			m.level[d.free] += sign
			if d.free > 0 {
				m.memory += int64(sign) * max(0, d.freeMiB)
			}
			t.Devices++
			t.FreeMilli += int64(d.free)
			if d.free == Whole {
				whole++
			}
		}
		m.whole[whole] += sign
		t.WholeFree += int64(whole)
	}
}

// sum is what one node has left, nothing where nothing new may be placed.
func (c *Cluster) sum(n *node) Totals {
	if !n.present || n.blocked {
		return Totals{}
	}
	t := Totals{Nodes: 1, MilliCPU: max(0, n.cpu), MemoryBytes: max(0, n.memory), Pods: max(0, n.pods)}
	for u := n.usable; u != 0; u &= u - 1 {
		d := &n.devices[bits.TrailingZeros64(u)]
		t.Devices++
		t.FreeMilli += int64(d.free)
		if d.free == Whole {
			t.WholeFree++
		}
	}
	return t
}

// Class is a kind of ask. Classes are numbered from 0 in the order in which
// they were first asked for; the number never decides anything.
type Class int32

// Rule says whether a node is eligible. It must depend on the node's name and
// facts alone; it is called once for each description of a node.
type Rule func(name string, facts any) bool

// rule is a predicate and its answers.
type rule struct {
	name   string
	holds  Rule
	asked  []uint64 // by node: the facts of which the answer is
	answer []bool
}

// SetRule defines the predicate that asks name in their field Rule, or
// replaces it: its answers are then asked for again.
func (c *Cluster) SetRule(name string, holds Rule) error {
	if name == "" || holds == nil {
		return errors.New("a rule needs a name and a predicate")
	}
	i, ok := c.byRule[name]
	if !ok {
		c.byRule[name] = len(c.rules)
		c.rules = append(c.rules, rule{name: name, holds: holds})
		return nil
	}
	c.rules[i] = rule{name: name, holds: holds}
	for k := range c.classes {
		if c.classes[k].rule == i {
			c.classes[k].table = table{}
		}
	}
	return nil
}

// eligible is the rule's answer for a node.
func (c *Cluster) eligible(r int, id NodeID) bool {
	if r < 0 {
		return true
	}
	q := &c.rules[r]
	for int(id) >= len(q.asked) {
		q.asked = append(q.asked, 0)
		q.answer = append(q.answer, false)
	}
	n := &c.nodes[id]
	if q.asked[id] != n.facts {
		q.asked[id] = n.facts
		q.answer[id] = q.holds(n.name, n.spec.Facts)
	}
	return q.answer[id]
}

// class is a row of the classes.
type class struct {
	ask    Ask
	rule   int // -1: none
	lean   int // -1: none
	models modelSet
	other  []need
	table  table
}

// need is an amount of a resource, by index.
type need struct {
	resource int
	value    int64
}

// Class is the class of the ask: the same for asks that are alike.
func (c *Cluster) Class(a Ask) (Class, error) {
	key := a.key()
	if k, ok := c.byKey[key]; ok {
		return k, nil
	}
	if err := a.Check(); err != nil {
		return 0, fmt.Errorf("ask: %w", err)
	}
	r := -1
	if a.Rule != "" {
		i, ok := c.byRule[a.Rule]
		if !ok {
			return 0, fmt.Errorf("ask: rule %q is not defined; SetRule defines it", a.Rule)
		}
		r = i
	}
	lean := -1
	if a.Leaning != "" {
		i, ok := c.byLeaning[a.Leaning]
		if !ok {
			return 0, fmt.Errorf("ask: leaning %q is not defined; SetLeaning defines it", a.Leaning)
		}
		lean = i
	}
	k := class{ask: a, rule: r, lean: lean, models: newModelSet(a.Models, a.InOrder)}
	k.ask.Models = slices.Clone(a.Models)
	k.ask.Other = sortedAmounts(a.Other)
	for _, o := range k.ask.Other {
		k.other = append(k.other, need{c.resource(o.Name), o.Value})
	}
	for i := range c.models {
		k.models.learn(c.models[i].name)
	}
	id := Class(len(c.classes))
	c.classes = append(c.classes, k)
	c.byKey[key] = id
	return id, nil
}

// Ask is what the class asks for. Its slices are not to be changed.
func (c *Cluster) Ask(k Class) Ask { return c.classes[k].ask }

// Forget drops what is remembered about nodes for the class. It costs memory
// in proportion to the nodes, and is built again when it is next needed.
func (c *Cluster) Forget(k Class) { c.classes[k].table = table{} }

// modelSet says which models will do, and how gladly.
type modelSet struct {
	names   []string
	inOrder bool
	// tier is by model: 0 is the most wanted, -1 will not do.
	tier []int16
}

func newModelSet(names []string, inOrder bool) modelSet {
	return modelSet{names: slices.Clone(names), inOrder: inOrder}
}

// learn adds the next model.
func (s *modelSet) learn(name string) {
	tier := int16(0)
	if len(s.names) > 0 {
		tier = int16(slices.Index(s.names, name))
		if tier > 0 && !s.inOrder {
			tier = 0
		}
	}
	s.tier = append(s.tier, tier)
}
