package queue

import (
	"cmp"
	"math"
	"slices"
)

// Share is the queue's share at the tree's moment: the dominant part of the
// cluster that it has above its guarantee, now and lately, by its weight. 0:
// not above its guarantee, or the capacity is not known.
func (t *Tree) Share(q Queue) float64 { return t.share(int(q)) }

func (t *Tree) share(at int) float64 {
	t.settleNode(at)
	row := at * t.classes.Len()
	overGPU := t.above(row, GPU)
	dominant := 0.0
	for c := range t.classes.Len() {
		above := t.above(row, Class(c))
		if Class(c) >= firstModel && !t.named[row+c] {
			// Any model of the gpu guarantee will do.
			above = min(above, overGPU)
		}
		if t.capacity[c] > 0 && above > 0 {
			dominant = max(dominant, above/float64(t.capacity[c]))
		}
	}
	return dominant / t.nodes[at].weight
}

// above is what a node has above its guarantee: the mean of what it holds above
// it and what it held lately above it.
func (t *Tree) above(row int, c Class) float64 {
	i := row + int(c)
	guaranteed := t.prorated[i]
	if c >= firstModel && !t.named[i] {
		guaranteed = 0
	}
	g := float64(guaranteed)
	return (max(0, float64(t.used[i])-g) + max(0, t.decayed[i]-g)) / 2
}

// userShare is a user's share of the cluster by what the user has in the queue
// itself, without the queues below.
func (t *Tree) userShare(r int) float64 {
	t.settleRecord(r)
	row := r * t.classes.Len()
	dominant := 0.0
	for c, capacity := range t.capacity {
		if capacity > 0 {
			dominant = max(dominant, (float64(t.held[row+c])+t.lately[row+c])/2/float64(capacity))
		}
	}
	return dominant
}

// Within reports whether the ask, on top of what is charged, is within what the
// queue is guaranteed.
func (t *Tree) Within(q Queue, ask Vector) bool { return t.within(t.leaf(q), ask) }

func (t *Tree) within(at int, ask Vector) bool {
	row := at * t.classes.Len()
	gpus := len(ask) > int(GPU) && ask[GPU] > 0
	any := false
	for c, amount := range ask {
		if amount <= 0 {
			continue
		}
		i := row + c
		switch {
		case Class(c) >= firstModel && !t.named[i]:
			continue
		case Class(c) < GPU && gpus && !t.named[i]:
			// It comes with the GPUs.
			continue
		case amount > t.prorated[i]-t.used[i]:
			return false
		}
		any = true
	}
	return any
}

// Compare orders two queues as they stand: the one whose share is smaller where
// their ways from the root part goes first. It is a total order of queues; the
// line orders work, which also heeds what is asked.
func (t *Tree) Compare(a, b Queue) int {
	x, y := t.part(a, b)
	if x == y {
		// One is above the other, or both are one.
		return cmp.Compare(a, b)
	}
	return cmp.Or(cmp.Compare(t.share(x), t.share(y)), cmp.Compare(x, y))
}

// part returns the children, above or at a and b, of the nearest queue that is
// above both. They are equal if one is above the other.
func (t *Tree) part(a, b Queue) (int, int) {
	x, y := t.leaf(a), t.leaf(b)
	// Parents have smaller numbers than their children.
	for x != y && t.nodes[x].parent != t.nodes[y].parent {
		if x > y {
			x = int(t.nodes[x].parent)
		} else {
			y = int(t.nodes[y].parent)
		}
	}
	return x, y
}

// Source is a queue from which something may be taken back, or by which
// something is borrowed.
type Source struct {
	// Queue is whose work it is, without the queues below.
	Queue Queue
	// Branch is the queue above it, or itself, that is compared with the
	// claimant's: the child of the nearest queue above both.
	Branch Queue
	// Class is of what.
	Class Class
	// Amount is how much may be taken back: no queue from Branch down to Queue
	// falls below its guarantee by it.
	Amount int64
}

// Reclaimable appends from which queues how much may be taken back so that the
// queue gets the ask, where the ask is within what it, or one above it, is
// guaranteed: from those that are above their guarantee under the nearest
// queue above both. Only classes in which the claimant stays within its
// guarantee are named. A gang cannot be taken back in part: taking the one
// that reaches beyond Amount is lawful, taking another one after it is not.
// Whose work may be taken is also up to MinRunTime of the source and to
// ReclaimsFrom of the claimant; where that is ReclaimNever, there is nothing.
// After anything was taken, ask again: more may be due at a queue further up.
func (t *Tree) Reclaimable(q Queue, ask Vector, into []Source) []Source {
	from := t.leaf(q)
	if t.nodes[from].reclaim == ReclaimNever {
		return into
	}
	ask = ask[:min(len(ask), t.classes.Len())]
	for at := from; at > 0; at = int(t.nodes[at].parent) {
		if !t.within(at, ask) {
			continue
		}
		row := at * t.classes.Len()
		for c, amount := range ask {
			if amount > 0 && amount <= t.guaranteed[row+c]-t.used[row+c] {
				into = t.borrowers(at, Class(c), into)
			}
		}
	}
	return into
}

// ReclaimsFrom says from which work the queue takes back.
func (t *Tree) ReclaimsFrom(q Queue) Reclaim { return t.nodes[q].reclaim }

// Borrowers appends who uses more than it is guaranteed of a class, in other
// branches than the queue's: first those nearest to it.
func (t *Tree) Borrowers(q Queue, c Class, into []Source) []Source {
	for at := t.leaf(q); at > 0; at = int(t.nodes[at].parent) {
		into = t.borrowers(at, c, into)
	}
	return into
}

// borrowers appends the leaves of the siblings of a node that, with everything
// above them up to the sibling, occupy more than their guarantee: what a queue
// keeps from others counts, so that who borrows beside it borrows from outside.
func (t *Tree) borrowers(at int, c Class, into []Source) []Source {
	up := &t.nodes[t.nodes[at].parent]
	for branch := up.first; branch < up.last; branch++ {
		if int(branch) != at {
			into = t.over(int(branch), int(branch), c, MaxAmount, into)
		}
	}
	return into
}

func (t *Tree) over(branch, at int, c Class, most int64, into []Source) []Source {
	i := at*t.classes.Len() + int(c)
	most = min(most, t.occupied[i]-t.guaranteed[i])
	if most <= 0 {
		return into
	}
	n := &t.nodes[at]
	if n.first == n.last {
		return append(into, Source{t.queueOf(at), t.queueOf(branch), c, most})
	}
	for child := n.first; child < n.last; child++ {
		into = t.over(branch, int(child), c, most, into)
	}
	return into
}

// Loan is something that a queue could borrow.
type Loan struct {
	// From is whose guarantee it is; the root if it is guaranteed to nobody.
	From Queue
	// Amount is how much of it is idle and lent.
	Amount int64
}

// Lenders appends what the queue could borrow of a class at this moment, and
// from whom, nearest first. Its limits, and whether it may borrow at all, are
// not looked at: Room is.
func (t *Tree) Lenders(q Queue, c Class, into []Loan) []Loan {
	width := t.classes.Len()
	for at := t.leaf(q); at > 0; at = int(t.nodes[at].parent) {
		up := t.nodes[at].parent
		var guaranteed, beyond int64
		start := len(into)
		for b := t.nodes[up].first; b < t.nodes[up].last; b++ {
			i := int(b)*width + int(c)
			guaranteed = plus(guaranteed, t.guaranteed[i])
			beyond = plus(beyond, max(0, t.used[i]-t.guaranteed[i]))
			idle := t.guaranteed[i] - max(min(t.used[i], t.guaranteed[i]), min(t.guaranteed[i], t.reserved[i]))
			if int(b) != at && idle > 0 {
				into = append(into, Loan{t.queueOf(int(b)), idle})
			}
		}
		if up == 0 && t.cap[c] != math.MaxInt64 && t.capacity[c] > guaranteed {
			into = append(into, Loan{Root, t.capacity[c] - guaranteed})
		}
		// What is borrowed already is taken from the last named first.
		for k := len(into) - 1; k >= start && beyond > 0; k-- {
			took := min(beyond, into[k].Amount)
			into[k].Amount -= took
			beyond -= took
		}
		into = slices.DeleteFunc(into, func(l Loan) bool { return l.Amount <= 0 })
	}
	return into
}
