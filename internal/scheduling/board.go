package scheduling

import (
	"math"
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// board is what the nodes have free, in plain counters, for scenarios: GPUs of
// a node count as alike, and ports are not counted. Nodes are in buckets by
// how many GPUs are free.
type board struct {
	nodes []slot
	// largest is the most GPUs that a node has.
	largest int
	// buckets are nodes by group and free GPUs, group by group.
	groups  []uint64
	buckets [][]int32
	// confines are the nodes' domains, where somebody has to be in one, or
	// apart.
	confines *confines
	// rooms are what lots can be asked for, and counts how many members of such
	// lots there is room for, as of counted, a number of changes.
	rooms   []roomKey
	counts  []int
	counted int
	changes int
}

// roomKey is what decides, on a board, how many members there is room for:
// which nodes will do, and how many GPUs each member needs.
type roomKey struct {
	kind uint64
	each int
}

// number finds, or adds, the number of a lot's room; -1 for lots without GPUs,
// or with parts of one.
func (b *board) number(l *lot) int {
	key := roomKey{l.kind, int(l.milli / placement.Whole)}
	if key.each == 0 {
		return -1
	}
	at := slices.Index(b.rooms, key)
	if at < 0 {
		at = len(b.rooms)
		b.rooms = append(b.rooms, key)
	}
	return at
}

// slot is a node of a board.
type slot struct {
	milli       int64
	cpu, memory int64
	group       int16 // -1: not used
	kept        bool
	bucket      int16 // -1: in none
	place       int32 // in its bucket
}

// build copies what is free now.
func (b *board) build(c *Core, kinds *kindTable) {
	b.largest = c.largest
	b.nodes = make([]slot, len(c.sites))
	groups := map[uint64]int16{}
	for i, s := range c.sites {
		b.nodes[i].group, b.nodes[i].bucket = -1, -1
		if !c.known(s) {
			continue
		}
		bits := kinds.served(&s.node)
		if bits == 0 {
			continue
		}
		g, known := groups[bits]
		if !known {
			g = int16(len(b.groups))
			groups[bits] = g
			b.groups = append(b.groups, bits)
		}
		n := &b.nodes[i]
		n.group = g
		n.cpu, n.memory = s.node.Allocatable.MilliCPU, s.node.Allocatable.Memory
		for d := range s.node.Devices {
			if s.node.Devices[d].usable() {
				n.milli += placement.Whole
			}
		}
		n.milli -= s.milli
		for _, e := range s.here {
			for k := range e.held {
				if h := &e.held[k]; h.site == s && !h.up {
					n.cpu -= h.resources.MilliCPU
					n.memory -= h.resources.Memory
				}
			}
		}
	}
	b.buckets = make([][]int32, len(b.groups)*(b.largest+1))
	for i := range b.nodes {
		b.enter(int32(i))
	}
}

// served are the kinds that a node takes.
func (t *kindTable) served(n *Node) uint64 {
	var bits uint64
	for at, r := range t.roles {
		if n.refuses(*r) != "" || r.wantsGPU() && !slices.ContainsFunc(n.Devices, func(d Device) bool { return d.usable() && r.accepts(d) }) {
			continue
		}
		bits |= 1 << at
	}
	return bits
}

func (b *board) clone() board {
	out := *b
	out.nodes, out.counts, out.counted = slices.Clone(b.nodes), make([]int, len(b.rooms)), -1
	out.buckets = make([][]int32, len(b.buckets))
	for i, bucket := range b.buckets {
		out.buckets[i] = slices.Clone(bucket)
	}
	return out
}

// enter puts a node into its bucket.
func (b *board) enter(id int32) {
	n := &b.nodes[id]
	if n.group < 0 || n.kept {
		return
	}
	free := min(b.largest, int(max(0, n.milli)/placement.Whole))
	n.bucket = n.group*int16(b.largest+1) + int16(free)
	n.place = int32(len(b.buckets[n.bucket]))
	b.changes++
	b.buckets[n.bucket] = append(b.buckets[n.bucket], id)
}

// exit takes a node out of its bucket.
func (b *board) exit(id int32) {
	n := &b.nodes[id]
	if n.bucket < 0 {
		return
	}
	b.changes++
	bucket := b.buckets[n.bucket]
	last := bucket[len(bucket)-1]
	bucket[n.place] = last
	b.nodes[last].place = n.place
	b.buckets[n.bucket] = bucket[:len(bucket)-1]
	n.bucket = -1
}

// keep takes nodes out of common use, or gives them back to it.
func (b *board) keep(ids []int32, kept bool) {
	for _, id := range ids {
		b.exit(id)
		b.nodes[id].kept = kept
		b.enter(id)
	}
}

func (b *board) give(s stall) { b.move(s, 1) }
func (b *board) take(s stall) { b.move(s, -1) }

func (b *board) move(s stall, sign int64) {
	n := &b.nodes[s.node]
	n.cpu += sign * s.cpu
	n.memory += sign * s.memory
	if s.milli == 0 {
		return
	}
	b.exit(s.node)
	n.milli += sign * s.milli
	b.enter(s.node)
}

// count is for how many members there is room, up to so many.
func (b *board) count(key roomKey, upTo int) int {
	room := 0
	for g, bits := range b.groups {
		if bits&key.kind == 0 {
			continue
		}
		for free := b.largest; free >= key.each && room < upTo; free-- {
			room += len(b.buckets[g*(b.largest+1)+free]) * (free / key.each)
		}
	}
	return room
}

// mayFit says quickly that lots have no room.
func (b *board) mayFit(lots []lot) bool {
	for i := range lots {
		if l := &lots[i]; l.room >= 0 && b.count(b.rooms[l.room], l.members) < l.members {
			return false
		}
	}
	return true
}

// recount counts all rooms, if anything changed, so that fits can be asked for
// many lots.
func (b *board) recount() {
	if b.counted == b.changes {
		return
	}
	for i, key := range b.rooms {
		b.counts[i] = b.count(key, math.MaxInt)
	}
	b.counted = b.changes
}

// fits is mayFit as of the last recount.
func (b *board) fits(lots []lot) bool {
	for i := range lots {
		if l := &lots[i]; l.room >= 0 && b.counts[l.room] < l.members {
			return false
		}
	}
	return true
}

// place takes room for all lots, or none, and appends what it took.
func (b *board) place(lots []lot, into []stall) ([]stall, bool) {
	if !b.mayFit(lots) {
		return into, false
	}
	for i := range lots {
		l := &lots[i]
		chunk := l.largestChunk
		for left := l.members; left > 0; {
			chunk = min(chunk, left)
			id := b.best(l, chunk)
			if id < 0 {
				if chunk == 1 {
					for _, s := range into {
						b.give(s)
					}
					return into[:0], false
				}
				chunk = (chunk + 1) / 2
				continue
			}
			n := int64(chunk)
			s := stall{node: id, milli: n * l.milli, cpu: n * l.cpu, memory: n * l.memory}
			b.take(s)
			into = append(into, s)
			left -= chunk
		}
	}
	return into, true
}

// looked is how many nodes of a bucket are looked at for CPU and memory.
const looked = 256

// best is the node with the fewest free GPUs on which a chunk has room, or -1.
func (b *board) best(l *lot, chunk int) int32 {
	n := int64(chunk)
	each := int(n * l.milli / placement.Whole)
	for free := each; free <= b.largest; free++ {
		for g, bits := range b.groups {
			if bits&l.kind == 0 {
				continue
			}
			bucket := b.buckets[g*(b.largest+1)+free]
			for k, id := range bucket {
				if k == looked {
					break
				}
				if s := &b.nodes[id]; (l.milli == 0 || s.milli >= n*l.milli) && (l.cpu == 0 || s.cpu >= n*l.cpu) && (l.memory == 0 || s.memory >= n*l.memory) {
					return id
				}
			}
		}
	}
	return -1
}
