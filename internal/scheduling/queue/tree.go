package queue

import "math"

// Queue is the number of a queue in its tree. It holds for this tree only.
type Queue int32

// Root stands for the whole cluster. Nothing is charged to it directly.
const Root Queue = 0

// User is the number of a user in a tree.
type User int32

// node is one queue, or the own work of a queue that has children.
type node struct {
	name        string
	parent      int32
	first, last int32 // The children: from first to before last.
	spec        int
	own         bool
	weight      float64
	borrows     bool
	fair        bool
	stopped     bool
	gone        bool
	reclaim     Reclaim
	minRun      int64
}

// Tree is the queues with what is charged to them. Build makes it.
type Tree struct {
	classes  *Classes
	halfLife int64
	now      int64
	nodes    []node
	byName   map[string]Queue

	// One row of classes for each node.
	guaranteed []int64
	named      []bool  // The guarantee holds this class by name.
	prorated   []int64 // The guarantee, with CPU and memory that come with GPUs.
	cap        []int64 // The most that may be occupied; MaxInt64: no limit.
	lend       []int64 // The most that is lent.
	reserved   []int64 // What is not lent and so counts as occupied.
	used       []int64
	occupied   []int64   // What children occupy; of a leaf, what is used.
	decayed    []float64 // As of settledAt.
	settledAt  []int64

	capacity []int64 // Zero: unknown, or none.
	users    map[string]User
	userName []string
	ledger
	line    *Line
	scratch []int64
}

func (t *Tree) allocate() {
	width := t.classes.Len()
	size := len(t.nodes) * width
	t.guaranteed, t.prorated, t.cap, t.lend = make([]int64, size), make([]int64, size), make([]int64, size), make([]int64, size)
	t.reserved, t.used, t.occupied = make([]int64, size), make([]int64, size), make([]int64, size)
	t.named, t.decayed = make([]bool, size), make([]float64, size)
	t.settledAt = make([]int64, len(t.nodes))
	t.capacity, t.scratch = make([]int64, width), make([]int64, width)
}

// reserve finds what each queue keeps from others, with all below it.
func (t *Tree) reserve() {
	width := t.classes.Len()
	for at := len(t.nodes) - 1; at > 0; at-- {
		for c := range width {
			i, up := at*width+c, int(t.nodes[at].parent)*width+c
			t.reserved[i] = max(t.reserved[i], t.occupied[i], t.guaranteed[i]-min(t.lend[i], t.guaranteed[i]))
			t.occupied[up] = plus(t.occupied[up], t.reserved[i])
		}
	}
}

// Classes returns the classes that vectors of this tree are of.
func (t *Tree) Classes() *Classes { return t.classes }

// Find returns the queue of this name.
func (t *Tree) Find(name string) (Queue, bool) {
	if name == "" {
		name = Default
	}
	q, ok := t.byName[name]
	return q, ok
}

// Name returns a queue's name; "" for the root.
func (t *Tree) Name(q Queue) string { return t.nodes[q].name }

// Parent returns the queue above; Root where there is none.
func (t *Tree) Parent(q Queue) Queue { return Queue(max(t.nodes[q].parent, 0)) }

// Children appends the queues right below q, in the order of their names.
func (t *Tree) Children(q Queue, into []Queue) []Queue {
	for i := t.nodes[q].first; i < t.nodes[q].last; i++ {
		if !t.nodes[i].own {
			into = append(into, Queue(i))
		}
	}
	return into
}

// Len is the number of queues, without the root.
func (t *Tree) Len() int { return len(t.byName) }

// MinRunTime is how long work of the queue runs at least before it may be
// taken back for another queue; 0: the queues do not say.
func (t *Tree) MinRunTime(q Queue) int64 { return t.nodes[q].minRun }

// Gone reports a queue that was deleted while work is charged to it.
func (t *Tree) Gone(q Queue) bool { return t.nodes[q].gone }

// leaf returns the node that is charged: the queue, or its own work beside its
// children.
func (t *Tree) leaf(q Queue) int {
	n := &t.nodes[q]
	if q != Root && n.first < n.last {
		return int(n.first)
	}
	return int(q)
}

// queueOf returns the queue that a node belongs to.
func (t *Tree) queueOf(at int) Queue {
	if t.nodes[at].own {
		return Queue(t.nodes[at].parent)
	}
	return Queue(at)
}

func (t *Tree) at(values []int64, q Queue, c Class) int64 {
	return values[int(q)*t.classes.Len()+int(c)]
}

// Guaranteed is what the queue is guaranteed of a class, after what could not
// be honoured was cut.
func (t *Tree) Guaranteed(q Queue, c Class) int64 { return t.at(t.guaranteed, q, c) }

// Limit is the most that the queue may use of a class, and false if it has no
// limit. A queue that may not borrow is limited to its guarantee; the root's
// limit is the cluster's capacity, where that is known.
func (t *Tree) Limit(q Queue, c Class) (int64, bool) {
	limit := t.at(t.cap, q, c)
	return limit, limit != math.MaxInt64
}

// Used is what is charged to the queue and to all below it.
func (t *Tree) Used(q Queue, c Class) int64 { return t.at(t.used, q, c) }

// Borrowed is what the queue uses above its guarantee. Of a model that the
// guarantee does not name, no more is borrowed than of GPUs in all.
func (t *Tree) Borrowed(q Queue, c Class) int64 {
	above := max(0, t.at(t.used, q, c)-t.at(t.guaranteed, q, c))
	if c >= firstModel && !t.named[int(q)*t.classes.Len()+int(c)] {
		return min(above, t.Borrowed(q, GPU))
	}
	return above
}

// Decayed is the queue's decayed usage of a class at the tree's moment, in the
// unit of the class.
func (t *Tree) Decayed(q Queue, c Class) float64 {
	t.settleNode(int(q))
	return t.decayed[int(q)*t.classes.Len()+int(c)]
}

// SetCapacity says what the cluster has in all, nil if that is not known. It
// is the measure of shares and the root's limit; it may change at any time.
func (t *Tree) SetCapacity(capacity Vector) {
	width := t.classes.Len()
	for c := range width {
		t.capacity[c], t.cap[c] = 0, math.MaxInt64
		if c < len(capacity) {
			t.capacity[c] = max(0, min(capacity[c], MaxAmount))
			t.cap[c] = t.capacity[c]
		}
	}
	for at := 1; at < len(t.nodes); at++ {
		row := at * width
		for c := range width {
			t.prorated[row+c] = t.guaranteed[row+c]
			if Class(c) >= GPU || t.named[row+c] || !t.named[row+int(GPU)] || t.capacity[GPU] == 0 {
				continue
			}
			part := float64(t.guaranteed[row+int(GPU)]) / float64(t.capacity[GPU])
			t.prorated[row+c] = int64(float64(min(part, 1) * float64(t.capacity[c])))
		}
	}
	if t.line != nil {
		t.line.stale = true
	}
}

// Overcommitted returns how much more of a class the root's children are
// guaranteed than the cluster has; 0 if all guarantees can be met at once or
// the capacity is not known.
func (t *Tree) Overcommitted(c Class) int64 {
	if t.cap[c] == math.MaxInt64 {
		return 0
	}
	var sum int64
	for i := t.nodes[0].first; i < t.nodes[0].last; i++ {
		sum = plus(sum, t.guaranteed[int(i)*t.classes.Len()+int(c)])
	}
	return max(0, sum-t.capacity[c])
}

// Advance sets the tree's moment, in the unit of the half-life. A moment before
// the tree's is taken for the tree's: a clock that goes back stands still.
func (t *Tree) Advance(now int64) {
	if now > t.now {
		t.now = now
		if t.line != nil {
			t.line.stale = true
		}
	}
}

// Shift sets the clock by which the tree's moment is told: so much later, or
// earlier if it is negative, without time having passed.
func (t *Tree) Shift(by int64) {
	t.now += by
	for i := range t.settledAt {
		t.settledAt[i] += by
	}
	for r := range t.heldAt {
		t.heldAt[r] += by
	}
	if t.line != nil {
		t.line.stale = true
	}
}

// Now is the tree's moment.
func (t *Tree) Now() int64 { return t.now }

// settleNode brings a node's decayed usage to the tree's moment.
func (t *Tree) settleNode(at int) {
	elapsed := t.now - t.settledAt[at]
	if elapsed <= 0 {
		return
	}
	row := at * t.classes.Len()
	end := row + t.classes.Len()
	settle(t.decayed[row:end], t.used[row:end], remaining(elapsed, t.halfLife))
	t.settledAt[at] = t.now
}
