package queue

import (
	"cmp"
	"slices"
)

// Recollection is what was written down of a queue's usage.
type Recollection struct {
	// Queue is its name.
	Queue string
	// At is the moment that it is of.
	At int64
	// Used is what the queue held then, and Decayed its decayed usage, with all
	// below it.
	Used, Decayed Amounts
}

// Users is what was written down of the usage of users. Its fields are for
// encoding/json, which writes equal ones as equal bytes.
type Users struct {
	// At is the moment that it is of.
	At int64 `json:"at,omitempty"`
	// Usage is that of each user in each queue itself, without the queues below
	// it: those that count most first.
	Usage []UserUsage `json:"usage,omitempty"`
}

// UserUsage is what one user used in one queue.
type UserUsage struct {
	Queue string `json:"queue"`
	User  string `json:"user"`
	// Held is what the user held then, and Decayed the decayed usage.
	Held    Amounts `json:"held,omitempty"`
	Decayed Amounts `json:"decayed,omitempty"`
}

// Users are the users that used most lately, at most so many: by the largest
// part of what there is of any class. Usage of less than one unit is none.
func (t *Tree) Users(most int) Users {
	out := Users{At: t.now}
	width := t.classes.Len()
	parts := map[[2]string]float64{}
	for r, key := range t.keys {
		t.settleRecord(r)
		u := UserUsage{Queue: t.Name(t.queueOf(int(key.leaf))), User: t.userName[key.user], Held: Amounts{}, Decayed: Amounts{}}
		part := 0.0
		for c := range width {
			if lately := t.lately[r*width+c]; lately >= 1 {
				name := t.classes.Name(Class(c))
				u.Held[name], u.Decayed[name] = t.held[r*width+c], int64(lately)
				part = max(part, lately/float64(max(1, t.capacity[c])))
			}
		}
		if len(u.Decayed) > 0 {
			out.Usage = append(out.Usage, u)
			parts[[2]string{u.Queue, u.User}] = part
		}
	}
	slices.SortFunc(out.Usage, func(a, b UserUsage) int {
		i, j := [2]string{a.Queue, a.User}, [2]string{b.Queue, b.User}
		return cmp.Or(cmp.Compare(parts[j], parts[i]), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.User, b.User))
	})
	out.Usage = out.Usage[:min(most, len(out.Usage))]
	return out
}

// RecallUsers makes the decayed usage of users what was written down of it,
// brought to the tree's moment, as [Tree.Recall] does for queues. That is to be
// called after it and has the last word on what users had together. Those of
// whom nothing was written down, or whose queue is gone, keep what they have.
func (t *Tree) RecallUsers(users Users) {
	left := remaining(t.now-users.At, t.halfLife)
	for i := range users.Usage {
		u := &users.Usage[i]
		q, ok := t.byName[u.Queue]
		if !ok || q == Root {
			continue
		}
		leaf := t.leaf(q)
		r := int(t.record(leaf, t.User(u.User)))
		t.settleRecord(r)
		for c := range t.classes.Len() {
			name, at := t.classes.Name(Class(c)), r*t.classes.Len()+c
			held := float64(min(max(0, u.Held[name]), t.held[at]))
			more := held + float64((float64(max(0, u.Decayed[name]))-held)*left) - t.lately[at]
			t.lately[at] += more
			for up := leaf; up >= 0; up = int(t.nodes[up].parent) {
				t.settleNode(up)
				t.decayed[up*t.classes.Len()+c] = max(0, t.decayed[up*t.classes.Len()+c]+more)
			}
		}
	}
	if t.line != nil {
		t.line.stale = true
	}
}

// Recall makes decayed usage what was written down of it, brought to the
// tree's moment: what is held now and was held then is taken to have been held
// all the time. Queues of which nothing was written down keep what they have.
// It is meant for a tree to which what is held was charged just now. Of whose
// usage it was nothing is known beyond what users hold, and what RecallUsers
// was told.
func (t *Tree) Recall(memories []Recollection) {
	known := make([][]float64, len(t.nodes))
	for i := range memories {
		m := &memories[i]
		q, ok := t.byName[m.Queue]
		if !ok || len(m.Decayed) == 0 && len(m.Used) == 0 {
			continue
		}
		left := remaining(t.now-m.At, t.halfLife)
		values := make([]float64, t.classes.Len())
		for c := range values {
			name := t.classes.Name(Class(c))
			held := float64(min(max(0, m.Used[name]), t.Used(q, Class(c))))
			values[c] = held + float64((float64(max(0, m.Decayed[name]))-held)*left)
		}
		known[q] = values
	}
	// What is below a queue is not its own.
	for q := range known {
		if known[q] == nil {
			continue
		}
		own := make([]float64, t.classes.Len())
		copy(own, known[q])
		for _, child := range t.Children(Queue(q), nil) {
			for c := range own {
				if known[child] != nil {
					own[c] -= known[child][c]
				} else {
					own[c] -= t.Decayed(child, Class(c))
				}
			}
		}
		t.remember(Queue(q), own)
	}
	if t.line != nil {
		t.line.stale = true
	}
}

// remember makes what a queue itself has used, without the queues below it, so
// much: what is more than its users are known to have had is nobody's.
func (t *Tree) remember(q Queue, usage []float64) {
	leaf, width := t.leaf(q), t.classes.Len()
	nobody := t.record(leaf, t.User(""))
	for r, key := range t.keys {
		if int(key.leaf) == leaf {
			t.settleRecord(r)
		}
	}
	t.settleNode(leaf)
	for c := range width {
		want, have := max(0, usage[c]), max(0, t.decayed[leaf*width+c])
		if want > have {
			t.lately[int(nobody)*width+c] += want - have
		} else {
			for r, key := range t.keys {
				if int(key.leaf) == leaf && have > 0 {
					t.lately[r*width+c] *= want / have
				}
			}
		}
		for at := leaf; at >= 0; at = int(t.nodes[at].parent) {
			t.settleNode(at)
			t.decayed[at*width+c] = max(0, t.decayed[at*width+c]+want-have)
		}
	}
}
