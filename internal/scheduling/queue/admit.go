package queue

import "math"

// Rule is what kept an ask from being admitted.
type Rule int8

// The rules.
const (
	// RuleNone: nothing.
	RuleNone Rule = iota
	// RuleGone: the queue was deleted.
	RuleGone
	// RuleStopped: the queue, or one above it, is stopped.
	RuleStopped
	// RuleLimit: more than the limit of the queue, or of one above it.
	RuleLimit
	// RuleBorrowing: more than the guarantee of a queue that may not borrow.
	RuleBorrowing
	// RuleReserved: there would be room, but it is kept for queues that do not
	// lend it.
	RuleReserved
	// RuleCapacity: more than the cluster has left.
	RuleCapacity
)

// Block is the constraint that an ask meets.
type Block struct {
	// Rule is the kind.
	Rule Rule
	// Queue is where the rule is: the queue itself or one above it; the root for
	// RuleCapacity.
	Queue Queue
	// Class is of what there is too little.
	Class Class
	// Allowed is the limit, guarantee or capacity.
	Allowed int64
	// Used is what counts against it: what is used below the queue, and what is
	// reserved there and idle.
	Used int64
	// Missing is how much less the ask would have to be, or how much more would
	// have to be free.
	Missing int64
}

// Admit reports whether the queue may take the ask on top of what is charged,
// and if not, the first constraint in its way: stopped queues first, then from
// the queue upwards, in the order of classes. It allocates nothing.
func (t *Tree) Admit(q Queue, ask Vector) (Block, bool) {
	var first Block
	t.blocks(q, ask, func(b Block) bool {
		first = b
		return false
	})
	return first, first.Rule == RuleNone
}

// Blocks appends every constraint in the way of an ask, in the order of Admit.
func (t *Tree) Blocks(q Queue, ask Vector, into []Block) []Block {
	t.blocks(q, ask, func(b Block) bool {
		into = append(into, b)
		return true
	})
	return into
}

// blocks shows each constraint until it is told to stop.
func (t *Tree) blocks(q Queue, ask Vector, show func(Block) bool) {
	leaf, width := t.leaf(q), t.classes.Len()
	ask = ask[:min(len(ask), width)]
	for at := leaf; at >= 0; at = int(t.nodes[at].parent) {
		n := &t.nodes[at]
		if n.own || !n.gone && !n.stopped {
			continue
		}
		rule := RuleStopped
		if n.gone {
			rule = RuleGone
		}
		if !show(Block{Rule: rule, Queue: Queue(at)}) {
			return
		}
	}
	copy(t.scratch, ask)
	for at := leaf; at >= 0; at = int(t.nodes[at].parent) {
		row := at * width
		for c := range ask {
			more := t.scratch[c]
			if more <= 0 {
				continue
			}
			i := row + c
			if t.cap[i] != math.MaxInt64 && more > t.cap[i]-t.occupied[i] {
				block := Block{
					Rule: t.rule(at, c, ask[c]), Queue: Queue(at), Class: Class(c),
					Allowed: t.cap[i], Used: t.occupied[i], Missing: more - max(0, t.cap[i]-t.occupied[i]),
				}
				if !show(block) {
					return
				}
			}
			// What is reserved for the queue counted already.
			t.scratch[c] = max(0, more-max(0, t.reserved[i]-t.occupied[i]))
		}
	}
}

// rule names what is in the way of an ask at a node whose cap it exceeds.
func (t *Tree) rule(at, c int, more int64) Rule {
	i := at*t.classes.Len() + c
	switch {
	case more <= t.cap[i]-t.used[i]:
		return RuleReserved
	case at == 0:
		return RuleCapacity
	case !t.nodes[at].borrows && t.named[i] && t.cap[i] == t.guaranteed[i]:
		return RuleBorrowing
	}
	return RuleLimit
}

// Room is how much more of a class the queue could take, whether free or not
// at this moment in the cluster; MaxInt64 if nothing limits it.
func (t *Tree) Room(q Queue, c Class) int64 { return t.room(t.leaf(q), c) }

func (t *Tree) room(at int, c Class) int64 {
	i := at*t.classes.Len() + int(c)
	room := int64(math.MaxInt64)
	if t.cap[i] != math.MaxInt64 {
		room = max(0, t.cap[i]-t.occupied[i])
	}
	if at == 0 {
		return room
	}
	above := t.room(int(t.nodes[at].parent), c)
	if kept := max(0, t.reserved[i]-t.occupied[i]); above < math.MaxInt64-kept {
		room = min(room, kept+above)
	}
	return room
}
