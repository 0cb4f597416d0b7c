package placement

import (
	"slices"
	"strings"
)

// DomainID is a part of the topology: a path such as zone, rack.
type DomainID int32

// NoDomain stands for the whole cluster.
const NoDomain DomainID = 0

// domain is a row of the topology.
type domain struct {
	path  []string
	nodes []NodeID // by name
}

// domainKey is the identity of a path.
func domainKey(path []string) string { return strings.Join(path, "\x00") }

// enterDomains puts a node into every domain on its path.
func (c *Cluster) enterDomains(id NodeID, path []string) {
	n := &c.nodes[id]
	for depth := 1; depth <= len(path); depth++ {
		key := domainKey(path[:depth])
		d, ok := c.byPath[key]
		if !ok {
			d = DomainID(len(c.domains))
			c.domains = append(c.domains, domain{path: slices.Clone(path[:depth])})
			c.byPath[key] = d
		}
		row := &c.domains[d]
		at, _ := slices.BinarySearchFunc(row.nodes, n.name, func(o NodeID, name string) int {
			return strings.Compare(c.nodes[o].name, name)
		})
		row.nodes = slices.Insert(row.nodes, at, id)
		n.domains = append(n.domains, d)
	}
}

// leaveDomains takes a node out of its domains.
func (c *Cluster) leaveDomains(id NodeID) {
	n := &c.nodes[id]
	for _, d := range n.domains {
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
	from := len(dst)
	for d := range c.domains {
		if len(c.domains[d].path) == depth && len(c.domains[d].nodes) > 0 {
			dst = append(dst, DomainID(d))
		}
	}
	slices.SortFunc(dst[from:], func(a, b DomainID) int {
		return slices.Compare(c.domains[a].path, c.domains[b].path)
	})
	return dst
}

// DomainPath is the domain's path, widest first. It is not to be changed.
func (c *Cluster) DomainPath(d DomainID) []string { return c.domains[d].path }

// DomainNodes are the nodes in the domain, by name. They are not to be changed.
func (c *Cluster) DomainNodes(d DomainID) []NodeID {
	if d == NoDomain {
		return c.Nodes(nil)
	}
	return c.domains[d].nodes
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
