package queue

import (
	"cmp"
	"slices"
)

// Entry is one ask that waits for its turn.
type Entry struct {
	// Ref is the caller's, and unlike that of any other entry: the last word
	// between entries that are alike in all else.
	Ref int
	// Queue and User are who asks.
	Queue Queue
	User  User
	// Priority: higher goes first in its queue.
	Priority int32
	// Created is its age: smaller goes first.
	Created int64
	// Ask is how much it wants. The line keeps the slice and does not change it.
	Ask Vector

	record int32
	lane   int32
}

// lane is the entries of one user in one leaf, or of all where the queue does
// not tell users apart: a part of Line.entries.
type lane struct {
	next, end int32
	leaf      int32
	record    int32 // -1: all users.
	share     float64
}

// rank is a node's place among its siblings, by its first entry.
type rank struct {
	within bool
	share  float64
}

// Line gives out waiting asks in the order of their turns. Each turn is decided
// by what is charged at that moment, so a caller that charges what it started
// before it takes the next gets progressive filling. A turn costs
// O(depth x log siblings); nothing is allocated once the line has grown to its
// size.
type Line struct {
	tree    *Tree
	entries []Entry
	left    int
	stale   bool

	lanes   []lane
	laneOf  []int32 // By record; -1: none.
	first   []int32 // By node: the entry that is its first, -1: none.
	rank    []rank
	turns   heaps // Of nodes, among siblings.
	users   heaps // Of lanes, in their leaf.
	laneLo  []int32
	laneHi  []int32
	touched []int32
	isDirty []bool
}

// Line returns the tree's line, empty. There is one for each tree; a second
// call empties it.
func (t *Tree) Line() *Line {
	if t.line == nil {
		size := len(t.nodes)
		l := &Line{tree: t, first: make([]int32, size), rank: make([]rank, size), laneLo: make([]int32, size), laneHi: make([]int32, size)}
		t.line = l
	}
	t.line.Reset()
	return t.line
}

// Reset empties the line.
func (l *Line) Reset() {
	l.entries, l.left, l.stale = l.entries[:0], 0, true
}

// Add puts an ask in the line.
func (l *Line) Add(e Entry) {
	leaf := l.tree.leaf(e.Queue)
	e.record = l.tree.record(leaf, e.User)
	// Those that had their turn are at no fixed place: begin with what is left.
	l.compact()
	l.entries = append(l.entries, e)
	l.left++
	l.stale = true
}

// Len is how many wait for their turn.
func (l *Line) Len() int { return l.left }

// compact drops the entries that had their turn.
func (l *Line) compact() {
	if l.left == len(l.entries) {
		return
	}
	kept := l.entries[:0]
	for _, n := range l.lanes {
		kept = append(kept, l.entries[n.next:n.end]...)
	}
	l.entries = kept
	l.lanes = l.lanes[:0]
}

// Next takes the first ask out of the line and returns it; false if the line
// is empty.
func (l *Line) Next() (Entry, bool) {
	if l.left == 0 {
		return Entry{}, false
	}
	l.refresh()
	e := l.entries[l.first[0]]
	l.left--
	at := &l.lanes[e.lane]
	at.next++
	leaf := int(at.leaf)
	if at.next == at.end {
		l.users.remove(l.laneLess, e.lane)
	} else {
		l.users.fix(l.laneLess, e.lane)
	}
	l.climb(leaf)
	return e, true
}

// refresh brings the order up to date with what was charged since.
func (l *Line) refresh() {
	if l.stale {
		l.build()
		return
	}
	for _, r := range l.touched {
		l.isDirty[r] = false
		leaf := int(l.tree.keys[r].leaf)
		if k := l.laneOf[r]; k >= 0 {
			l.lanes[k].share = l.tree.userShare(int(r))
			if l.lanes[k].next < l.lanes[k].end {
				l.users.fix(l.laneLess, k)
			}
		}
		l.climb(leaf)
	}
	l.touched = l.touched[:0]
}

// touch notes that a record's amounts have changed.
func (l *Line) touch(r int32) {
	if l.stale {
		return
	}
	for int(r) >= len(l.isDirty) {
		l.isDirty = append(l.isDirty, false)
		l.laneOf = append(l.laneOf, -1)
	}
	if !l.isDirty[r] {
		l.isDirty[r] = true
		l.touched = append(l.touched, r)
	}
}

// build makes lanes and heaps of all that waits.
func (l *Line) build() {
	l.compact()
	l.stale = false
	l.touched = l.touched[:0]
	l.isDirty = resize(l.isDirty, len(l.tree.keys))
	l.laneOf = resize(l.laneOf, len(l.tree.keys))
	clear(l.isDirty)
	for i := range l.laneOf {
		l.laneOf[i] = -1
	}
	for i := range l.entries {
		e := &l.entries[i]
		e.lane = e.record
		if leaf := l.tree.keys[e.record].leaf; !l.tree.nodes[leaf].fair {
			e.lane = -1
		}
	}
	slices.SortFunc(l.entries, func(a, b Entry) int {
		if a.record != b.record {
			if d := cmp.Compare(l.tree.keys[a.record].leaf, l.tree.keys[b.record].leaf); d != 0 {
				return d
			}
			if d := cmp.Compare(a.lane, b.lane); d != 0 {
				return d
			}
		}
		return inTurn(&a, &b)
	})
	l.split()
	l.turns.init(len(l.tree.nodes))
	for at := range l.tree.nodes {
		l.turns.frame(l.tree.nodes[at].first, l.tree.nodes[at].last)
	}
	// From the leaves up: children have larger numbers.
	for at := len(l.tree.nodes) - 1; at >= 0; at-- {
		l.users.frame(l.laneLo[at], l.laneHi[at])
		for k := l.laneLo[at]; k < l.laneHi[at]; k++ {
			l.users.fix(l.laneLess, k)
		}
		if l.look(at) && at > 0 {
			l.turns.fix(l.nodeLess, int32(at))
		}
	}
}

// split cuts the sorted entries into lanes.
func (l *Line) split() {
	l.lanes = l.lanes[:0]
	clear(l.laneLo)
	clear(l.laneHi)
	last, before := int32(-1), int32(0)
	for i := range l.entries {
		e := &l.entries[i]
		leaf := l.tree.keys[e.record].leaf
		if leaf != last || e.lane != before {
			last, before = leaf, e.lane
			k := int32(len(l.lanes))
			fresh := lane{next: int32(i), leaf: leaf, record: e.lane}
			if e.lane >= 0 {
				l.laneOf[e.lane] = k
				fresh.share = l.tree.userShare(int(e.lane))
			}
			if l.laneHi[leaf] == 0 {
				l.laneLo[leaf] = k
			}
			l.laneHi[leaf] = k + 1
			l.lanes = append(l.lanes, fresh)
		}
		e.lane = int32(len(l.lanes) - 1)
		l.lanes[e.lane].end = int32(i + 1)
	}
	l.users.init(len(l.lanes))
}

// look finds a node's first entry and its rank, and reports whether there is
// any.
func (l *Line) look(at int) bool {
	n := &l.tree.nodes[at]
	l.first[at] = -1
	if n.first == n.last {
		if l.laneHi[at] > l.laneLo[at] {
			if k := l.users.top(l.laneLo[at]); k >= 0 {
				l.first[at] = l.lanes[k].next
			}
		}
	} else if child := l.turns.top(n.first); child >= 0 {
		l.first[at] = l.first[child]
	}
	if l.first[at] < 0 {
		return false
	}
	if at > 0 {
		l.rank[at] = rank{l.tree.within(at, l.entries[l.first[at]].Ask), l.tree.share(at)}
	}
	return true
}

// climb brings the ranks from a leaf to the root up to date.
func (l *Line) climb(at int) {
	for ; at >= 0; at = int(l.tree.nodes[at].parent) {
		some := l.look(at)
		switch {
		case at == 0:
		case some:
			l.turns.fix(l.nodeLess, int32(at))
		default:
			l.turns.remove(l.nodeLess, int32(at))
		}
	}
}

// inTurn orders asks that nothing else tells apart.
func inTurn(a, b *Entry) int {
	switch {
	case a.Priority != b.Priority:
		return cmp.Compare(b.Priority, a.Priority)
	case a.Created != b.Created:
		return cmp.Compare(a.Created, b.Created)
	}
	return cmp.Compare(a.Ref, b.Ref)
}

// laneLess orders the users of a leaf.
func (l *Line) laneLess(x, y int32) bool {
	a, b := &l.entries[l.lanes[x].next], &l.entries[l.lanes[y].next]
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	if s, r := l.lanes[x].share, l.lanes[y].share; s != r {
		return s < r
	}
	return inTurn(a, b) < 0
}

// nodeLess orders siblings.
func (l *Line) nodeLess(x, y int32) bool {
	a, b := &l.rank[x], &l.rank[y]
	if a.within != b.within {
		return a.within
	}
	if a.share != b.share {
		return a.share < b.share
	}
	return inTurn(&l.entries[l.first[x]], &l.entries[l.first[y]]) < 0
}

func resize[T any](s []T, size int) []T {
	if cap(s) < size {
		return make([]T, size)
	}
	return s[:size]
}
