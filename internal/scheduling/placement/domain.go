package placement

import (
	"cmp"
	"slices"
	"strings"
)

// DomainID is a part of the topology: a path such as zone, rack, or one node
// (see Alone).
type DomainID int32

// NoDomain stands for the whole cluster.
const NoDomain DomainID = 0

// Alone is the domain that is one node and nothing else.
func Alone(id NodeID) DomainID { return -DomainID(id) - 1 }

// alone is the node of a domain that is one node.
func (d DomainID) alone() (NodeID, bool) { return NodeID(-d - 1), d < 0 }

// domain is a row of the topology.
type domain struct {
	path  []string
	nodes []NodeID // by name
	// total is what its nodes that are not blocked have left.
	total Totals
}

// domainKey is the identity of a path.
func domainKey(path []string) string { return strings.Join(path, "\x00") }

// enterDomains puts a node into every domain on its path. An empty name says
// that the node is in no domain of that level; narrower levels go on below it.
func (c *Cluster) enterDomains(id NodeID, path []string) {
	n := &c.nodes[id]
	for depth := 1; depth <= len(path); depth++ {
		if path[depth-1] == "" {
			n.domains = append(n.domains, NoDomain)
			continue
		}
		d := c.domainRow(path[:depth])
		row := &c.domains[d]
		at, _ := slices.BinarySearchFunc(row.nodes, n.name, func(o NodeID, name string) int {
			return strings.Compare(c.nodes[o].name, name)
		})
		row.nodes = slices.Insert(row.nodes, at, id)
		n.domains = append(n.domains, d)
	}
}

// domainRow is the row of a path, which is made if there is none.
func (c *Cluster) domainRow(path []string) DomainID {
	key := domainKey(path)
	if d, ok := c.byPath[key]; ok {
		return d
	}
	d := DomainID(len(c.domains))
	c.domains = append(c.domains, domain{path: slices.Clone(path)})
	c.byPath[key] = d
	for len(path) > len(c.levels) {
		c.levels = append(c.levels, nil)
	}
	level := &c.levels[len(path)-1]
	at, _ := slices.BinarySearchFunc(*level, path, func(o DomainID, path []string) int {
		return slices.Compare(c.domains[o].path, path)
	})
	*level = slices.Insert(*level, at, d)
	return d
}

// leaveDomains takes a node out of its domains.
func (c *Cluster) leaveDomains(id NodeID) {
	n := &c.nodes[id]
	for _, d := range n.domains {
		if d == NoDomain {
			continue
		}
		row := &c.domains[d]
		if at := slices.Index(row.nodes, id); at >= 0 {
			row.nodes = slices.Delete(row.nodes, at, at+1)
		}
	}
	n.domains = n.domains[:0]
}

// Domain is the domain at that path, if any node was ever in it.
func (c *Cluster) Domain(path ...string) (DomainID, bool) {
	d, ok := c.byPath[domainKey(path)]
	return d, ok
}

// Domains appends the domains with nodes in them at that depth (1 is the
// widest), by path.
func (c *Cluster) Domains(depth int, dst []DomainID) []DomainID {
	if depth < 1 || depth > len(c.levels) {
		return dst
	}
	for _, d := range c.levels[depth-1] {
		if len(c.domains[d].nodes) > 0 {
			dst = append(dst, d)
		}
	}
	return dst
}

// DomainPath is the domain's path, widest first; that of one node alone is its
// name. It is not to be changed.
func (c *Cluster) DomainPath(d DomainID) []string {
	if id, ok := d.alone(); ok {
		return []string{c.nodes[id].name}
	}
	return c.domains[d].path
}

// Inside reports that a domain is another, or a part of it.
func (c *Cluster) Inside(d, outer DomainID) bool {
	if d == outer || outer == NoDomain {
		return true
	}
	if d < 0 || outer < 0 {
		id, alone := d.alone()
		return alone && outer > 0 && slices.Contains(c.nodes[id].domains, outer)
	}
	in, of := c.domains[d].path, c.domains[outer].path
	return len(in) >= len(of) && slices.Equal(in[:len(of)], of)
}

// DomainNodes are the nodes in the domain, by name. They are not to be changed.
func (c *Cluster) DomainNodes(d DomainID) []NodeID {
	if d == NoDomain {
		return c.Nodes(nil)
	}
	return c.nodesOf(d)
}

// nodesOf are the rows to look at in a domain, by name.
func (c *Cluster) nodesOf(d DomainID) []NodeID {
	if d == NoDomain {
		return c.byRank
	}
	if id, ok := d.alone(); ok {
		rank := c.nodes[id].rank
		return c.byRank[rank : rank+1]
	}
	return c.domains[d].nodes
}

// DomainTotals are the sums of what is free in the domain now.
func (c *Cluster) DomainTotals(d DomainID) Totals {
	if d == NoDomain {
		return c.total
	}
	if id, ok := d.alone(); ok {
		return c.sum(&c.nodes[id])
	}
	return c.domains[d].total
}

// NodeDomain is the domain at that depth that the node is in, or NoDomain.
func (c *Cluster) NodeDomain(id NodeID, depth int) DomainID {
	if n := &c.nodes[id]; depth >= 1 && depth <= len(n.domains) {
		return n.domains[depth-1]
	}
	return NoDomain
}

// Depth is how many levels the topology has.
func (c *Cluster) Depth() int {
	depth := 0
	for i := range c.domains {
		if len(c.domains[i].nodes) > 0 {
			depth = max(depth, len(c.domains[i].path))
		}
	}
	return depth
}

// BestOfEach appends the best node for one more member of the class in each
// domain at that depth, the best of them first; at depth 0, every node where
// the class fits. Nodes in no domain of that depth are left out. Nothing is
// held. What is placed on one of them changes nothing for the others, so that
// one member on each, in this order, is what Place would choose if no two were
// to be in one domain.
func (c *Cluster) BestOfEach(k Class, in Scope, depth int, dst []NodeID) []NodeID {
	cl := &c.classes[k]
	c.refresh(cl)
	t, from := &cl.table, len(dst)
	switch {
	case depth == 0:
		for _, id := range c.nodesOf(in.Domain) {
			if t.fit[id] > 0 && !in.Avoid.Has(id) {
				dst = append(dst, id)
			}
		}
	case in.Domain == NoDomain && depth <= len(c.levels):
		for _, d := range c.levels[depth-1] {
			if id := c.bestAmong(t, c.domains[d].nodes, in.Avoid); id >= 0 {
				dst = append(dst, NodeID(id))
			}
		}
	default:
		dst = c.bestBelow(t, in, depth, dst)
	}
	slices.SortFunc(dst[from:], func(a, b NodeID) int {
		return cmp.Or(cmp.Compare(t.score[b], t.score[a]), cmp.Compare(c.nodes[a].rank, c.nodes[b].rank))
	})
	return dst
}

// bestBelow appends the best node of each domain at that depth among the nodes
// of another domain.
func (c *Cluster) bestBelow(t *table, in Scope, depth int, dst []NodeID) []NodeID {
	c.bestIn = slices.Grow(c.bestIn[:0], len(c.domains))[:len(c.domains)]
	for i := range c.bestIn {
		c.bestIn[i] = -1
	}
	for _, id := range c.nodesOf(in.Domain) {
		if t.fit[id] <= 0 || in.Avoid.Has(id) {
			continue
		}
		if d := c.NodeDomain(id, depth); d != NoDomain && (c.bestIn[d] < 0 || t.score[id] > t.score[c.bestIn[d]]) {
			c.bestIn[d] = int32(id)
		}
	}
	for _, id := range c.bestIn {
		if id >= 0 {
			dst = append(dst, NodeID(id))
		}
	}
	return dst
}

// bestAmong is the best of the nodes, or -1. They come by name: of those that
// are alike, the first stays.
func (c *Cluster) bestAmong(t *table, nodes []NodeID, avoid *NodeSet) int32 {
	best := int32(-1)
	for _, id := range nodes {
		if t.fit[id] > 0 && (best < 0 || t.score[id] > t.score[best]) && !avoid.Has(id) {
			best = int32(id)
		}
	}
	return best
}

// NodeSet is a set of nodes.
type NodeSet struct {
	bits []uint64
	size int
}

// Has says whether the node is in the set. A nil set is empty.
func (s *NodeSet) Has(id NodeID) bool {
	return s != nil && int(id)>>6 < len(s.bits) && s.bits[id>>6]>>(id&63)&1 != 0
}

// Add puts the node into the set.
func (s *NodeSet) Add(id NodeID) {
	for int(id)>>6 >= len(s.bits) {
		s.bits = append(s.bits, 0)
	}
	if !s.Has(id) {
		s.bits[id>>6] |= 1 << (id & 63)
		s.size++
	}
}

// Remove takes the node out of the set.
func (s *NodeSet) Remove(id NodeID) {
	if s.Has(id) {
		s.bits[id>>6] &^= 1 << (id & 63)
		s.size--
	}
}

// Clear empties the set and keeps its memory.
func (s *NodeSet) Clear() {
	clear(s.bits)
	s.size = 0
}

// Len is how many nodes are in the set.
func (s *NodeSet) Len() int {
	if s == nil {
		return 0
	}
	return s.size
}
