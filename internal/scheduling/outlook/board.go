package outlook

import (
	"math"
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// board counts the free resources of the nodes for scenarios. It treats all GPUs of a
// node as alike, and ignores ports. Nodes are in buckets by their number of free GPUs.
type board struct {
	nodes []slot
	// largest is the largest number of GPUs in a node.
	largest int
	// buckets are nodes by group and free GPUs, group by group.
	groups  []uint64
	buckets [][]int32
	// domains are the topology domains of the nodes; nil without topology constraints.
	domains *Domains
	// rooms are the distinct requests of the lots. counts has, for each of them, the
	// number of members with room when changes was at counted.
	rooms   []roomKey
	counts  []int
	counted int
	changes int
}

// roomKey is a request that a board counts room for: the bit of the suitable nodes,
// and the GPUs of each member.
type roomKey struct {
	kind uint64
	each int
}

// number returns the index of a lot in rooms, and adds it if it is missing. It returns
// -1 for a lot without GPUs or with shares of GPUs.
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
	bucket      int16 // -1: in no bucket
	place       int32 // index in its bucket
}

// build sets the free resources of the nodes. Largest is the largest number of GPUs in
// a node.
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

// keep reserves nodes, or ends their reservation.
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

// count returns the number of members with room. It stops counting at upTo.
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

// mayFit is a quick check. If it returns false, the lots have no room.
func (b *board) mayFit(lots []Lot) bool {
	for i := range lots {
		if l := &lots[i]; l.room >= 0 && b.count(b.rooms[l.room], l.Members) < l.Members {
			return false
		}
	}
	return true
}

// recount updates counts after a change, for the calls of fits that follow.
func (b *board) recount() {
	if b.counted == b.changes {
		return
	}
	for i, key := range b.rooms {
		b.counts[i] = b.count(key, math.MaxInt)
	}
	b.counted = b.changes
}

// fits is mayFit with the counts of the last recount.
func (b *board) fits(lots []Lot) bool {
	for i := range lots {
		if l := &lots[i]; l.room >= 0 && b.counts[l.room] < l.Members {
			return false
		}
	}
	return true
}

// place reserves room for all lots or for none, and appends the reserved stalls.
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

// looked is the number of nodes in a bucket that best checks for CPU and memory.
const looked = 256

// best returns the node with the fewest free GPUs that has room for a chunk, or -1.
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
