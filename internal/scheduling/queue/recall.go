package queue

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

// Recall makes decayed usage what was written down of it, brought to the
// tree's moment: what is held now and was held then is taken to have been held
// all the time. Queues of which nothing was written down keep what they have.
// It is meant for a tree to which what is held was charged just now. Of whose
// usage it was nothing is known beyond what users hold.
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
