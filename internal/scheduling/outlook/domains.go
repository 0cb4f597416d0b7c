package outlook

// Domains are the topology domains of a board's nodes, for shapes with a topology
// constraint. They are the same in every scenario. Levels count from 1.
type Domains struct {
	// Of is the domain of each node, by level; -1: none.
	Of [][]int32
	// Nodes are the nodes of each domain, by level.
	Nodes [][][]int32
	// All are the nodes of the cluster.
	All []int32
}

// confined reports whether the shape has a topology constraint.
func (s *shape) confined() bool {
	if s.within != 0 {
		return true
	}
	for i := range s.lots {
		if s.lots[i].Apart != 0 {
			return true
		}
	}
	return false
}

// fit reserves room for all lots of a shape or for none, and appends the reserved
// stalls.
func (b *board) fit(s *shape, into []Stall) ([]Stall, bool) {
	if !s.confined() {
		return b.place(s.lots, into)
	}
	if !b.mayFit(s.lots) {
		return into, false
	}
	if s.within == 0 {
		return b.placeAmong(b.domains.All, s.lots, into)
	}
	for _, nodes := range b.domains.Nodes[s.within-1] {
		if out, ok := b.placeAmong(nodes, s.lots, into); ok {
			return out, true
		}
	}
	return into, false
}

// placeAmong is place on the given nodes.
func (b *board) placeAmong(nodes []int32, lots []Lot, into []Stall) ([]Stall, bool) {
	from := len(into)
	for i := range lots {
		l := &lots[i]
		used := map[int32]bool{}
		chunk := l.LargestChunk
		for left := l.Members; left > 0; {
			chunk = min(chunk, left)
			id := b.bestAmong(nodes, l, int64(chunk), used)
			if id < 0 && chunk > 1 {
				chunk = (chunk + 1) / 2
				continue
			}
			if id < 0 {
				for _, s := range into[from:] {
					b.give(s)
				}
				return into[:from], false
			}
			n := int64(chunk)
			s := Stall{Node: id, Milli: n * l.Milli, CPU: n * l.CPU, Memory: n * l.Memory}
			b.take(s)
			into = append(into, s)
			left -= chunk
			if l.Apart != 0 {
				used[b.domains.Of[l.Apart-1][id]] = true
			}
		}
	}
	return into, true
}

// bestAmong returns the one of the given nodes with the fewest free GPUs that has room
// for a chunk, or -1.
func (b *board) bestAmong(nodes []int32, l *Lot, n int64, used map[int32]bool) int32 {
	best := int32(-1)
	for _, id := range nodes {
		s := &b.nodes[id]
		if s.group < 0 || s.kept || b.groups[s.group]&l.Kinds == 0 || s.milli < n*l.Milli ||
			l.CPU > 0 && s.cpu < n*l.CPU || l.Memory > 0 && s.memory < n*l.Memory || best >= 0 && b.nodes[best].milli <= s.milli {
			continue
		}
		if l.Apart != 0 {
			if d := b.domains.Of[l.Apart-1][id]; d < 0 || used[d] {
				continue
			}
		}
		best = id
	}
	return best
}
