package placement

import "errors"

// Leaning says how gladly a node is taken, from -MostLeaning to MostLeaning: a
// node with more is chosen wherever there is room, whatever the policy would
// say. Only how wanted the GPU models are goes before it. It must depend on the
// node's name and facts alone; it is called once for each description of a
// node.
type Leaning func(name string, facts any) int

// leaning is a Leaning and its answers.
type leaning struct {
	name   string
	of     Leaning
	asked  []uint64 // by node: the facts of which the answer is
	answer []int16
}

// SetLeaning defines the leaning that asks name in their field Leaning. One
// that is defined already stays as it is.
func (c *Cluster) SetLeaning(name string, of Leaning) error {
	if name == "" || of == nil {
		return errors.New("a leaning needs a name and a function")
	}
	if _, ok := c.byLeaning[name]; !ok {
		c.byLeaning[name] = len(c.leanings)
		c.leanings = append(c.leanings, leaning{name: name, of: of})
	}
	return nil
}

// lean is what the class's leaning adds to the score of a node.
func (c *Cluster) lean(k *class, id NodeID) int64 {
	if k.lean < 0 {
		return 0
	}
	q, n := &c.leanings[k.lean], &c.nodes[id]
	for int(id) >= len(q.asked) {
		q.asked, q.answer = append(q.asked, 0), append(q.answer, 0)
	}
	if q.asked[id] != n.facts {
		q.asked[id] = n.facts
		q.answer[id] = int16(max(-MostLeaning, min(MostLeaning, q.of(n.name, n.spec.Facts))))
	}
	return int64(q.answer[id]) << tierBits
}
