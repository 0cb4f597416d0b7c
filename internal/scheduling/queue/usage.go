package queue

import "slices"

// recordKey is a user in a leaf.
type recordKey struct {
	leaf int32
	user User
}

// ledger is what users hold, and how to undo what was charged last.
type ledger struct {
	records map[recordKey]int32
	keys    []recordKey
	held    []int64   // A row of classes for each record.
	lately  []float64 // The same, decayed as of heldAt.
	heldAt  []int64

	open    bool
	undo    []change
	amounts []int64
}

// change is one charge; its amounts begin at from.
type change struct {
	record int32
	refund bool
	from   int32
}

// Mark is a moment to which Undo returns.
type Mark int32

// User returns the number of a user, a new one if the name is new.
func (t *Tree) User(name string) User {
	if u, ok := t.users[name]; ok {
		return u
	}
	u := User(len(t.userName))
	t.users[name] = u
	t.userName = append(t.userName, name)
	return u
}

// record returns the record of a user in a leaf, a new one if there is none.
func (t *Tree) record(leaf int, u User) int32 {
	key := recordKey{int32(leaf), u}
	if r, ok := t.records[key]; ok {
		return r
	}
	r := int32(len(t.keys))
	t.records[key] = r
	t.keys = append(t.keys, key)
	for range t.classes.Len() {
		t.held, t.lately = append(t.held, 0), append(t.lately, 0)
	}
	t.heldAt = append(t.heldAt, t.now)
	return r
}

// Charge counts an ask as held, from the tree's moment on, whether or not
// Admit would allow it. It is false, and changes nothing, if an amount is
// negative or a sum would pass MaxAmount, or q is the root.
func (t *Tree) Charge(q Queue, u User, ask Vector) bool {
	if q == Root || len(ask) > t.classes.Len() {
		return false
	}
	for c, amount := range ask {
		if amount < 0 || amount > MaxAmount-t.used[c] {
			return false
		}
	}
	r := t.record(t.leaf(q), u)
	t.apply(r, ask, false)
	t.note(r, ask, false)
	return true
}

// Refund takes back what was charged. It is false, and changes nothing, if the
// user does not hold that much in the queue.
func (t *Tree) Refund(q Queue, u User, ask Vector) bool {
	r, ok := t.records[recordKey{int32(t.leaf(q)), u}]
	if !ok || len(ask) > t.classes.Len() {
		return false
	}
	row := int(r) * t.classes.Len()
	for c, amount := range ask {
		if amount < 0 || amount > t.held[row+c] {
			return false
		}
	}
	t.apply(r, ask, true)
	t.note(r, ask, true)
	return true
}

// Held is what a user holds in a queue itself, without the queues below.
func (t *Tree) Held(q Queue, u User, c Class) int64 {
	if r, ok := t.records[recordKey{int32(t.leaf(q)), u}]; ok {
		return t.held[int(r)*t.classes.Len()+int(c)]
	}
	return 0
}

// Mark begins to remember charges and refunds and returns where it stands.
func (t *Tree) Mark() Mark {
	t.open = true
	return Mark(len(t.undo))
}

// Undo takes back every charge and refund since the mark.
func (t *Tree) Undo(to Mark) {
	for len(t.undo) > int(to) {
		last := t.undo[len(t.undo)-1]
		t.undo = t.undo[:len(t.undo)-1]
		t.apply(last.record, t.amounts[last.from:], !last.refund)
		t.amounts = t.amounts[:last.from]
	}
}

// Keep forgets all marks: what was charged stays.
func (t *Tree) Keep() { t.undo, t.amounts, t.open = t.undo[:0], t.amounts[:0], false }

func (t *Tree) note(r int32, ask Vector, refund bool) {
	if !t.open {
		return
	}
	t.undo = append(t.undo, change{r, refund, int32(len(t.amounts))})
	t.amounts = append(t.amounts, ask...)
}

// apply adds or takes back amounts on the way from a record's leaf to the
// root.
func (t *Tree) apply(r int32, ask []int64, refund bool) {
	width := t.classes.Len()
	t.settleRecord(int(r))
	row := int(r) * width
	for c, amount := range ask {
		if refund {
			amount = -amount
		}
		t.held[row+c] += amount
		t.scratch[c] = amount
	}
	leaf := int(t.keys[r].leaf)
	for at := leaf; at >= 0; at = int(t.nodes[at].parent) {
		t.settleNode(at)
		row := at * width
		for c, amount := range ask {
			if refund {
				amount = -amount
			}
			i := row + c
			t.used[i] += amount
			if at == leaf {
				// A leaf's row began with nothing, so it occupies what it uses.
				t.occupied[i] = t.used[i]
				t.scratch[c] = max(t.used[i], t.reserved[i]) - max(t.used[i]-amount, t.reserved[i])
				continue
			}
			before := t.occupied[i]
			t.occupied[i] += t.scratch[c]
			t.scratch[c] = max(t.occupied[i], t.reserved[i]) - max(before, t.reserved[i])
		}
	}
	if t.line != nil {
		t.line.touch(r)
	}
}

// settleRecord brings a user's decayed usage to the tree's moment.
func (t *Tree) settleRecord(r int) {
	elapsed := t.now - t.heldAt[r]
	if elapsed <= 0 {
		return
	}
	row := r * t.classes.Len()
	end := row + t.classes.Len()
	settle(t.lately[row:end], t.held[row:end], remaining(elapsed, t.halfLife))
	t.heldAt[r] = t.now
}

// Seed adds decayed usage, in the units of the classes and as of the given
// moment, to a user's in a queue: what was remembered while nobody kept count.
// Negative amounts and moments after the tree's are taken for none and for
// now.
func (t *Tree) Seed(q Queue, u User, usage []float64, as int64) {
	if q == Root {
		return
	}
	left := remaining(t.now-as, t.halfLife)
	leaf := t.leaf(q)
	r := t.record(leaf, u)
	t.settleRecord(int(r))
	width := t.classes.Len()
	for c := range min(len(usage), width) {
		amount := float64(max(0, usage[c]) * left)
		t.lately[int(r)*width+c] += amount
	}
	for at := leaf; at >= 0; at = int(t.nodes[at].parent) {
		t.settleNode(at)
		for c := range min(len(usage), width) {
			amount := float64(max(0, usage[c]) * left)
			t.decayed[at*width+c] += amount
		}
	}
	if t.line != nil {
		t.line.stale = true
	}
}

// Carry takes what is charged and remembered in another tree over into this
// one, by the names of queues, users and classes, and the other's moment. It
// returns the names of queues that work is charged to and that this tree
// lacks, sorted; build it again with a Spec that is Gone for each to count
// them too. It is meant for a tree that nothing has been charged to.
func (t *Tree) Carry(from *Tree) []string {
	t.Advance(from.now)
	var lost []string
	width := from.classes.Len()
	ask, lately := t.classes.Zero(), make([]float64, t.classes.Len())
	for r, key := range from.keys {
		from.settleRecord(r)
		clear(ask)
		clear(lately)
		holds, counts := false, false
		for c := range width {
			amount := from.held[r*width+c]
			holds = holds || amount != 0
			counts = counts || amount != 0 || from.lately[r*width+c] >= 1
			if class, ok := t.classes.Find(from.classes.Name(Class(c))); ok {
				ask[class], lately[class] = amount, from.lately[r*width+c]
			}
		}
		q, ok := t.byName[from.Name(from.queueOf(int(key.leaf)))]
		if !ok {
			if holds {
				lost = append(lost, from.Name(from.queueOf(int(key.leaf))))
			}
			continue
		}
		if !counts {
			continue // Less than one unit of anything is forgotten.
		}
		u := t.User(from.userName[key.user])
		t.Seed(q, u, lately, t.now)
		t.Charge(q, u, ask)
	}
	slices.Sort(lost)
	return slices.Compact(lost)
}
