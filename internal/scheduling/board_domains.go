package scheduling

// confines are the domains of the nodes of a board, for scenarios in which
// somebody has to be in one, or apart. They are the same in every scenario.
type confines struct {
	// of is, by level as depth counts it, in which domain each node is; -1:
	// none. The last is for single nodes.
	of [len(levels) + 1][]int32
	// nodes are the nodes of each domain, by level.
	nodes [len(levels) + 1][][]int32
	all   []int32
}

// place is the level's place in confines.
func (l Level) place() int {
	if l == LevelNode {
		return len(levels)
	}
	return l.depth() - 1
}

// newConfines looks up the domains of all nodes.
func newConfines(c *Core) *confines {
	f := &confines{}
	for at := range f.of {
		f.of[at] = make([]int32, len(c.sites))
		numbers := map[int32]int32{}
		for i, s := range c.sites {
			f.of[at][i] = -1
			if !c.known(s) {
				continue
			}
			key := int32(i)
			if at < len(levels) {
				d, some := c.domainOf(s.id, levels[at])
				if !some {
					continue
				}
				key = int32(d)
			} else {
				f.all = append(f.all, key)
			}
			number, known := numbers[key]
			if !known {
				number = int32(len(f.nodes[at]))
				numbers[key] = number
				f.nodes[at] = append(f.nodes[at], nil)
			}
			f.of[at][i] = number
			f.nodes[at][number] = append(f.nodes[at][number], int32(i))
		}
	}
	return f
}

// confined reports that members of the shape have to be in one domain, or apart.
func (s *shape) confined() bool {
	if s.within != "" {
		return true
	}
	for i := range s.lots {
		if s.lots[i].apart != "" {
			return true
		}
	}
	return false
}

// fit takes room for all lots of a shape, or none, and appends what it took.
func (b *board) fit(s *shape, into []stall) ([]stall, bool) {
	if !s.confined() {
		return b.place(s.lots, into)
	}
	if !b.mayFit(s.lots) {
		return into, false
	}
	if s.within == "" {
		return b.placeAmong(b.confines.all, s.lots, into)
	}
	for _, nodes := range b.confines.nodes[s.within.place()] {
		if out, ok := b.placeAmong(nodes, s.lots, into); ok {
			return out, true
		}
	}
	return into, false
}

// placeAmong is place on some of the nodes.
func (b *board) placeAmong(nodes []int32, lots []lot, into []stall) ([]stall, bool) {
	from := len(into)
	for i := range lots {
		l := &lots[i]
		used := map[int32]bool{}
		chunk := l.largestChunk
		for left := l.members; left > 0; {
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
			s := stall{node: id, milli: n * l.milli, cpu: n * l.cpu, memory: n * l.memory}
			b.take(s)
			into = append(into, s)
			left -= chunk
			if l.apart != "" {
				used[b.confines.of[l.apart.place()][id]] = true
			}
		}
	}
	return into, true
}

// bestAmong is the one of the nodes with the fewest free GPUs on which a chunk
// has room, or -1.
func (b *board) bestAmong(nodes []int32, l *lot, n int64, used map[int32]bool) int32 {
	best := int32(-1)
	for _, id := range nodes {
		s := &b.nodes[id]
		if s.group < 0 || s.kept || b.groups[s.group]&l.kind == 0 || s.milli < n*l.milli ||
			l.cpu > 0 && s.cpu < n*l.cpu || l.memory > 0 && s.memory < n*l.memory || best >= 0 && b.nodes[best].milli <= s.milli {
			continue
		}
		if l.apart != "" {
			if d := b.confines.of[l.apart.place()][id]; d < 0 || used[d] {
				continue
			}
		}
		best = id
	}
	return best
}
