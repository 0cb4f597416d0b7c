package simulate

import "math/bits"

// room is what a baseline knows of the nodes: how much is free where, with
// nodes indexed by their number of free GPUs, so that finding one looks at a
// few words instead of all nodes.
type room struct {
	spec ClusterSpec
	free []int
	// with[f] is the set of the nodes that have f GPUs free.
	with []nodeSet
	// count[f] is how many nodes are in with[f].
	count []int
}

// nodeSet is a set of nodes, a bit each.
type nodeSet []uint64

func (s nodeSet) add(node int)  { s[node>>6] |= 1 << (node & 63) }
func (s nodeSet) drop(node int) { s[node>>6] &^= 1 << (node & 63) }

// first returns the lowest node that is in s and not in avoid, or -1.
func (s nodeSet) first(avoid nodeSet) int {
	for i, word := range s {
		if avoid != nil {
			word &^= avoid[i]
		}
		if word != 0 {
			return i<<6 + bits.TrailingZeros64(word)
		}
	}
	return -1
}

// fit is which node is preferred for a gang on one node.
type fit int

const (
	// bestFit prefers the node with the least room that suffices.
	bestFit fit = iota
	// spread prefers the node with the most room.
	spread
)

func newRoom(spec ClusterSpec) *room {
	r := &room{spec: spec, free: make([]int, spec.Nodes), count: make([]int, spec.GPUsPerNode+1)}
	words := (spec.Nodes + 63) / 64
	for f := 0; f <= spec.GPUsPerNode; f++ {
		r.with = append(r.with, make(nodeSet, words))
	}
	for node := range r.free {
		r.free[node] = spec.GPUsPerNode
		r.with[spec.GPUsPerNode].add(node)
	}
	r.count[spec.GPUsPerNode] = spec.Nodes
	return r
}

// none returns an empty set of nodes.
func (r *room) none() nodeSet { return make(nodeSet, len(r.with[0])) }

// change moves a node to another number of free GPUs.
func (r *room) change(node, by int) {
	f := r.free[node]
	r.with[f].drop(node)
	r.count[f]--
	f += by
	r.free[node] = f
	r.with[f].add(node)
	r.count[f]++
}

// shape is what a gang needs: so many nodes with each GPUs, and the rest on
// one more where the cluster lets gangs share nodes.
func (r *room) shape(gpus int) (nodes, each, rest int) {
	if r.spec.WholeNodes || gpus <= r.spec.GPUsPerNode {
		nodes, each = r.spec.Shape(gpus)
		return nodes, each, 0
	}
	return gpus / r.spec.GPUsPerNode, r.spec.GPUsPerNode, gpus % r.spec.GPUsPerNode
}

// one returns a node with so many GPUs free that is not to be avoided, or -1.
func (r *room) one(gpus int, by fit, avoid nodeSet) int {
	per := r.spec.GPUsPerNode
	for i := gpus; i <= per; i++ {
		f := i
		if by == spread {
			f = per + gpus - i
		}
		if r.count[f] == 0 {
			continue
		}
		if node := r.with[f].first(avoid); node >= 0 {
			return node
		}
	}
	return -1
}

// fits reports whether a gang of so many GPUs fits now.
func (r *room) fits(gpus int) bool {
	nodes, each, rest := r.shape(gpus)
	if nodes == 1 && rest == 0 {
		for f := each; f < len(r.count); f++ {
			if r.count[f] > 0 {
				return true
			}
		}
		return false
	}
	empty := r.count[r.spec.GPUsPerNode]
	if rest == 0 || empty != nodes {
		return empty >= nodes
	}
	for f := rest; f < r.spec.GPUsPerNode; f++ {
		if r.count[f] > 0 {
			return true
		}
	}
	return false
}

// place takes room for a gang and says where, or takes nothing and returns nil.
func (r *room) place(gpus int, by fit, avoid nodeSet) []Share {
	nodes, each, rest := r.shape(gpus)
	if nodes == 1 && rest == 0 {
		node := r.one(each, by, avoid)
		if node < 0 {
			return nil
		}
		r.change(node, -each)
		return []Share{{Node: node, GPUs: each}}
	}
	if r.count[each] < nodes {
		return nil
	}
	shares := make([]Share, 0, nodes+1)
	for range nodes {
		node := r.with[each].first(avoid)
		if node < 0 {
			r.release(shares)
			return nil
		}
		r.change(node, -each)
		shares = append(shares, Share{Node: node, GPUs: each})
	}
	if rest > 0 {
		node := r.one(rest, by, avoid)
		if node < 0 {
			r.release(shares)
			return nil
		}
		r.change(node, -rest)
		shares = append(shares, Share{Node: node, GPUs: rest})
	}
	return shares
}

// take takes these shares, which must be free.
func (r *room) take(shares []Share) {
	for _, share := range shares {
		r.change(share.Node, -share.GPUs)
	}
}

// release gives shares back.
func (r *room) release(shares []Share) {
	for _, share := range shares {
		r.change(share.Node, share.GPUs)
	}
}

// roster remembers the jobs that were told of, and what each holds.
type roster struct {
	jobs []*Job
	held [][]Share
}

func (r *roster) know(job *Job) {
	for len(r.jobs) <= job.ID {
		r.jobs = append(r.jobs, nil)
		r.held = append(r.held, nil)
	}
	r.jobs[job.ID] = job
}
