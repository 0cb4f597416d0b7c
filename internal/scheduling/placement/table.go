package placement

import "math/bits"

// table is what a class remembers about every node: whether and how often it
// fits there, how good the node is, and a tournament over the scores.
type table struct {
	// seen is the version of each node that fit and score are of.
	seen  []uint64
	fit   []int32
	score []int64
	// winner is a binary tree in an array: the leaves are the nodes, from
	// index leaves on; every inner entry is the better of its two, and the
	// first is the best of all. -1: none fits.
	winner []int32
	leaves int
	// read is how far the list of changes was read.
	read uint64
	// room is the sum of fit.
	room int64
	// epoch is the workload under which the scores are.
	epoch uint32
	// memo holds scores by the fingerprint of the node's row: many nodes are
	// alike. Two rows with one fingerprint would share a score, never a seat.
	memo []memo
}

// memo is a score that was worked out.
type memo struct {
	finger uint64
	score  int64
}

// memos is how many scores a class remembers by fingerprint; a power of two.
const memos = 512

// refresh brings the class's table up to date. It costs in proportion to the
// nodes that changed since it was last called.
func (c *Cluster) refresh(k *class) {
	t := &k.table
	end := c.forgotten + uint64(len(c.changed))
	if t.leaves < len(c.nodes) || t.epoch != c.work.epoch {
		c.grow(t)
		t.read = 0
	}
	behind := end - t.read
	if t.read < c.forgotten || behind > uint64(len(c.nodes)) {
		c.sweep(k)
	} else {
		for _, id := range c.changed[t.read-c.forgotten:] {
			if t.seen[id] != c.nodes[id].version {
				c.score(k, id)
				t.play(c, id)
			}
		}
	}
	t.read = end
}

// grow makes the table large enough, and empty.
func (c *Cluster) grow(t *table) {
	if t.leaves < len(c.nodes) {
		leaves := 1 << bits.Len(uint(max(1, len(c.nodes)-1)))
		*t = table{
			seen: make([]uint64, leaves), fit: make([]int32, leaves), score: make([]int64, leaves),
			winner: make([]int32, 2*leaves), leaves: leaves, memo: make([]memo, memos),
		}
	}
	clear(t.seen)
	clear(t.fit)
	clear(t.memo)
	t.room = 0
	t.epoch = c.work.epoch
	for i := range t.winner {
		t.winner[i] = -1
	}
}

// sweep compares the versions of all nodes and plays the whole tournament.
func (c *Cluster) sweep(k *class) {
	t := &k.table
	for id := range c.nodes {
		if t.seen[id] != c.nodes[id].version {
			c.score(k, NodeID(id))
		}
	}
	for i := t.leaves - 1; i > 0; i-- {
		t.winner[i] = t.better(c, t.winner[2*i], t.winner[2*i+1])
	}
}

// score works out the node's entry.
func (c *Cluster) score(k *class, id NodeID) {
	t := &k.table
	n := &c.nodes[id]
	fit := c.fits(k, id)
	t.room += int64(fit) - int64(t.fit[id])
	t.fit[id] = fit
	t.seen[id] = n.version
	t.winner[t.leaves+int(id)] = -1
	if fit > 0 {
		t.winner[t.leaves+int(id)] = int32(id)
		t.score[id] = c.scoreOf(k, n) + c.lean(k, id)
	}
}

// scoreOf is the score of a node on which the class fits.
func (c *Cluster) scoreOf(k *class, n *node) int64 {
	if k.ask.Policy != Muster {
		return c.choose(k, n).score
	}
	finger := n.finger()
	m := &k.table.memo[finger%memos]
	if m.finger != finger {
		*m = memo{finger, c.choose(k, n).score}
	}
	return m.score
}

// play lets the node's entry compete from its leaf upwards.
func (t *table) play(c *Cluster, id NodeID) {
	for i := (t.leaves + int(id)) / 2; i > 0; i /= 2 {
		w := t.better(c, t.winner[2*i], t.winner[2*i+1])
		if w == t.winner[i] && w != int32(id) {
			return
		}
		t.winner[i] = w
	}
}

// better is the better of two nodes, of which either may be none.
func (t *table) better(c *Cluster, a, b int32) int32 {
	switch {
	case a < 0:
		return b
	case b < 0:
		return a
	case t.score[a] != t.score[b]:
		if t.score[a] > t.score[b] {
			return a
		}
		return b
	case c.nodes[a].rank < c.nodes[b].rank:
		return a
	}
	return b
}

// best is the best node below the tree's entry i that is not to be avoided.
func (t *table) best(c *Cluster, i int, avoid *NodeSet) int32 {
	w := t.winner[i]
	if w < 0 || !avoid.Has(NodeID(w)) {
		return w
	}
	if i >= t.leaves {
		return -1
	}
	return t.better(c, t.best(c, 2*i, avoid), t.best(c, 2*i+1, avoid))
}
