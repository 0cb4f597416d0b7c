package outlook

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
	// domains are those of the nodes, where members have to be in one, or apart.
	domains *Domains
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
func (b *board) number(l *Lot) int {
	key := roomKey{l.Kinds, int(l.Milli / placement.Whole)}
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

// build copies what is free now. Largest is the most GPUs that a node has.
func (b *board) build(nodes []Node, largest int) {
	b.largest = largest
	b.nodes = make([]slot, len(nodes))
	groups := map[uint64]int16{}
	for i := range nodes {
		b.nodes[i].group, b.nodes[i].bucket = -1, -1
		bits := nodes[i].Kinds
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
		n.milli, n.cpu, n.memory = nodes[i].Milli, nodes[i].CPU, nodes[i].Memory
	}
	b.buckets = make([][]int32, len(b.groups)*(b.largest+1))
	for i := range b.nodes {
		b.enter(int32(i))
	}
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

func (b *board) give(s Stall) { b.move(s, 1) }
func (b *board) take(s Stall) { b.move(s, -1) }

func (b *board) move(s Stall, sign int64) {
	n := &b.nodes[s.Node]
	n.cpu += sign * s.CPU
	n.memory += sign * s.Memory
	if s.Milli == 0 {
		return
	}
	b.exit(s.Node)
	n.milli += sign * s.Milli
	b.enter(s.Node)
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
func (b *board) mayFit(lots []Lot) bool {
	for i := range lots {
		if l := &lots[i]; l.room >= 0 && b.count(b.rooms[l.room], l.Members) < l.Members {
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
func (b *board) fits(lots []Lot) bool {
	for i := range lots {
		if l := &lots[i]; l.room >= 0 && b.counts[l.room] < l.Members {
			return false
		}
	}
	return true
}

// place takes room for all lots, or none, and appends what it took.
func (b *board) place(lots []Lot, into []Stall) ([]Stall, bool) {
	if !b.mayFit(lots) {
		return into, false
	}
	for i := range lots {
		l := &lots[i]
		chunk := l.LargestChunk
		for left := l.Members; left > 0; {
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
			s := Stall{Node: id, Milli: n * l.Milli, CPU: n * l.CPU, Memory: n * l.Memory}
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
func (b *board) best(l *Lot, chunk int) int32 {
	n := int64(chunk)
	each := int(n * l.Milli / placement.Whole)
	for free := each; free <= b.largest; free++ {
		for g, bits := range b.groups {
			if bits&l.Kinds == 0 {
				continue
			}
			bucket := b.buckets[g*(b.largest+1)+free]
			for k, id := range bucket {
				if k == looked {
					break
				}
				if s := &b.nodes[id]; (l.Milli == 0 || s.milli >= n*l.Milli) && (l.CPU == 0 || s.cpu >= n*l.CPU) && (l.Memory == 0 || s.memory >= n*l.Memory) {
					return id
				}
			}
		}
	}
	return -1
}
