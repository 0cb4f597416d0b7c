package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// drain takes everything out of the line, charging what start says.
func drain(tree *Tree, start func(Entry) bool) []int {
	var refs []int
	for {
		e, ok := tree.line.Next()
		if !ok {
			return refs
		}
		refs = append(refs, e.Ref)
		if start(e) {
			tree.Charge(e.Queue, e.User, e.Ask)
		}
	}
}

func never(Entry) bool  { return false }
func always(Entry) bool { return true }

func TestTurns(t *testing.T) {
	tree := grow(t, Spec{Name: "a", Guaranteed: Amounts{"gpu": 4000}}, Spec{Name: "b"}, Spec{Name: "heavy", Weight: 3})
	line := tree.Line()
	for k := range 4 {
		for i, name := range []string{"a", "b", "heavy"} {
			line.Add(Entry{Ref: 10*(i+1) + k, Queue: tree.must(name), User: tree.User("u"), Created: int64(10*k + i), Ask: tree.gpus(2000)})
		}
	}
	// Two of a are guaranteed; then, by age where shares are equal, one each;
	// then heavy has three for one of the others.
	if diff := cmp.Diff([]int{10, 11, 20, 30, 12, 31, 32, 21, 13, 33, 22, 23}, drain(tree, always)); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
}

func TestUsersTakeTurns(t *testing.T) {
	turns := func(spec Spec) []int {
		tree := grow(t, spec)
		q := tree.must(spec.Name)
		line := tree.Line()
		for k := range 6 {
			line.Add(Entry{Ref: k, Queue: q, User: tree.User("flood"), Created: int64(k), Ask: tree.gpus(1000)})
		}
		for k := range 2 {
			line.Add(Entry{Ref: 10 + k, Queue: q, User: tree.User("late"), Created: int64(100 + k), Ask: tree.gpus(1000)})
		}
		line.Add(Entry{Ref: 20, Queue: q, User: tree.User("urgent"), Created: 200, Priority: 1, Ask: tree.gpus(1000)})
		return drain(tree, always)
	}
	if diff := cmp.Diff([]int{20, 0, 10, 1, 11, 2, 3, 4, 5}, turns(Spec{Name: "default"})); diff != "" {
		t.Errorf("fair (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{20, 0, 1, 2, 3, 4, 5, 10, 11}, turns(Spec{Name: "default", NoUserFairness: true})); diff != "" {
		t.Errorf("by age (-want +got):\n%s", diff)
	}
}

// Whoever had much lately waits for whoever had little.
func TestYesterdayCounts(t *testing.T) {
	tree := grow(t, Spec{Name: "a"}, Spec{Name: "b"})
	tree.Charge(tree.must("a"), tree.User("u"), tree.gpus(8000))
	tree.Advance(1000)
	tree.Refund(tree.must("a"), tree.User("u"), tree.gpus(8000))
	tree.Advance(2000)
	if tree.Compare(tree.must("a"), tree.must("b")) <= 0 {
		t.Error("a had 8 GPUs lately and b none; a goes first")
	}
	line := tree.Line()
	line.Add(Entry{Ref: 1, Queue: tree.must("a"), Created: 1, User: tree.User("u"), Ask: tree.gpus(1000)})
	line.Add(Entry{Ref: 2, Queue: tree.must("b"), Created: 2, User: tree.User("u"), Ask: tree.gpus(1000)})
	if e, _ := line.Next(); e.Ref != 2 || line.Len() != 1 {
		t.Errorf("%d goes first", e.Ref)
	}
}

// first finds the entry whose turn it is by the definition: the best child at
// every level, each judged by its own first.
func first(tree *Tree, at int, entries []Entry) *Entry {
	n := &tree.nodes[at]
	var best *Entry
	bestAt := 0
	better := func(e *Entry, child int) bool {
		if best == nil {
			return true
		}
		if n.first == n.last {
			if e.Priority != best.Priority {
				return e.Priority > best.Priority
			}
			if s, r := tree.userShare(int(e.record)), tree.userShare(int(best.record)); n.fair && s != r {
				return s < r
			}
			return inTurn(e, best) < 0
		}
		if w, v := tree.within(child, e.Ask), tree.within(bestAt, best.Ask); w != v {
			return w
		}
		if s, r := tree.share(child), tree.share(bestAt); s != r {
			return s < r
		}
		return inTurn(e, best) < 0
	}
	if n.first == n.last {
		for i := range entries {
			if e := &entries[i]; tree.leaf(e.Queue) == at && better(e, at) {
				best = e
			}
		}
		return best
	}
	for child := n.first; child < n.last; child++ {
		if e := first(tree, int(child), entries); e != nil && better(e, int(child)) {
			best, bestAt = e, int(child)
		}
	}
	return best
}

// The heaps give what the definition says, under charges, refunds, undone
// charges and new entries between the turns; and in whatever order entries
// come.
func TestLineIsItsDefinition(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 6))
		tree := grow(t, forest(r, 1+r.IntN(15))...)
		line := tree.Line()
		var waiting []Entry
		add := func() {
			q := tree.queueOf(1 + r.IntN(len(tree.nodes)-1))
			e := Entry{Ref: len(waiting) + 1000*line.Len(), Queue: q, User: tree.User(fmt.Sprint(r.IntN(3))), Priority: r.Int32N(2), Created: r.Int64N(5), Ask: randomAsk(r, tree)}
			for slices.ContainsFunc(waiting, func(o Entry) bool { return o.Ref == e.Ref }) {
				e.Ref++
			}
			e.record = tree.record(tree.leaf(q), e.User)
			waiting = append(waiting, e)
			line.Add(e)
		}
		for range 1 + r.IntN(40) {
			add()
		}
		for len(waiting) > 0 {
			want := first(tree, 0, waiting).Ref
			e, ok := line.Next()
			if !ok || e.Ref != want {
				t.Fatalf("seed %d: %d has its turn, want %d", seed, e.Ref, want)
			}
			waiting = slices.DeleteFunc(waiting, func(o Entry) bool { return o.Ref == want })
			switch r.IntN(6) {
			case 0, 1:
				tree.Charge(e.Queue, e.User, e.Ask)
			case 2:
				mark := tree.Mark()
				tree.Charge(e.Queue, e.User, e.Ask)
				tree.Undo(mark)
				tree.Keep()
			case 3:
				tree.Charge(tree.queueOf(1+r.IntN(len(tree.nodes)-1)), tree.User("other"), randomAsk(r, tree))
			case 4:
				tree.Advance(tree.Now() + r.Int64N(100))
			case 5:
				if r.IntN(3) == 0 {
					add()
				}
			}
		}
		if _, ok := line.Next(); ok || line.Len() != 0 {
			t.Fatal("an empty line gives out more")
		}
	}
}

func TestOrderOfQueuesIsTotal(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		tree := grow(t, forest(r, 2+r.IntN(10))...)
		for range r.IntN(30) {
			tree.Charge(tree.queueOf(1+r.IntN(len(tree.nodes)-1)), tree.User(""), randomAsk(r, tree))
		}
		size := Queue(len(tree.nodes))
		for a := Queue(1); a < size; a++ {
			for b := Queue(1); b < size; b++ {
				a, b := tree.queueOf(int(a)), tree.queueOf(int(b))
				if tree.Compare(a, b) != -tree.Compare(b, a) || (tree.Compare(a, b) == 0) != (a == b) {
					t.Fatalf("seed %d: %s and %s", seed, tree.Name(a), tree.Name(b))
				}
				for c := Queue(1); c < size; c++ {
					c := tree.queueOf(int(c))
					if tree.Compare(a, b) < 0 && tree.Compare(b, c) < 0 && tree.Compare(a, c) >= 0 {
						t.Fatalf("seed %d: %s before %s before %s before %s", seed, tree.Name(a), tree.Name(b), tree.Name(c), tree.Name(a))
					}
				}
			}
		}
	}
}

// Asking for more of what is asked for anyway never brings an earlier turn,
// whether others start or not.
func TestDeclaringMoreBringsNoEarlierTurn(t *testing.T) {
	for seed := range uint64(300) {
		turn := func(more bool, start func(Entry) bool) int {
			r := rand.New(rand.NewPCG(seed, 8))
			tree := grow(t, forest(r, 2+r.IntN(5))...)
			for range r.IntN(10) {
				tree.Charge(tree.queueOf(1+r.IntN(len(tree.nodes)-1)), tree.User("0"), randomAsk(r, tree))
			}
			line := tree.Line()
			count := 2 + r.IntN(8)
			for ref := range count {
				e := Entry{Ref: ref, Queue: tree.queueOf(1 + r.IntN(len(tree.nodes)-1)), User: tree.User(fmt.Sprint(r.IntN(2))), Created: r.Int64N(4), Ask: randomAsk(r, tree)}
				if ref == 0 && more {
					for c := range e.Ask {
						if e.Ask[c] > 0 {
							e.Ask[c] += 1 + e.Ask[c]*int64(seed%3)
						}
					}
				}
				line.Add(e)
			}
			return slices.Index(drain(tree, start), 0)
		}
		for _, start := range []func(Entry) bool{never, func(e Entry) bool { return e.Ref != 0 }} {
			if honest, greedy := turn(false, start), turn(true, start); greedy < honest {
				t.Fatalf("seed %d: turn %d with the true ask, %d with more", seed, honest, greedy)
			}
		}
	}
}

// big is a cluster of so many queues, three levels deep, with so many waiting.
func big(b testing.TB, queues, waiting int) (*Tree, []Entry) {
	var specs []Spec
	for i := range queues {
		s := Spec{Name: fmt.Sprintf("q%04d", i), Guaranteed: Amounts{"gpu": 1000}, Weight: int64(1 + i%3)}
		if team := i / 20 * 20; i != team {
			s.Parent = fmt.Sprintf("q%04d", team)
		} else {
			s.Guaranteed["gpu"] = 20_000
		}
		specs = append(specs, s)
	}
	tree, problems := Build(specs, Options{Models: []string{"A100", "H100", "V100", "L4"}})
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	capacity := tree.classes.Zero()
	capacity[CPU], capacity[Memory] = 1<<40, 1<<50
	tree.classes.AddGPUs(capacity, "A100", 40_000_000)
	tree.SetCapacity(capacity)
	r := rand.New(rand.NewPCG(1, 9))
	entries := make([]Entry, waiting)
	for i := range entries {
		q, _ := tree.Find(fmt.Sprintf("q%04d", r.IntN(queues)))
		ask := tree.classes.Zero()
		ask[CPU], ask[Memory] = 8000, 64*gi
		tree.classes.AddGPUs(ask, "A100", (1+r.Int64N(8))*1000)
		entries[i] = Entry{Ref: i, Queue: q, User: tree.User(fmt.Sprint(r.IntN(50))), Created: int64(i), Ask: ask}
	}
	return tree, entries
}

// pass is what one decision does with queues: everything has its turn, is
// admitted and charged, and taken back again.
func pass(tree *Tree, entries []Entry) int {
	tree.Advance(tree.Now() + 1e9)
	line, mark, started := tree.Line(), tree.Mark(), 0
	for i := range entries {
		line.Add(entries[i])
	}
	for {
		e, ok := line.Next()
		if !ok {
			break
		}
		if _, ok := tree.Admit(e.Queue, e.Ask); ok {
			tree.Charge(e.Queue, e.User, e.Ask)
			started++
		}
	}
	tree.Undo(mark)
	tree.Keep()
	return started
}

func TestPassAllocatesNothing(t *testing.T) {
	tree, entries := big(t, 200, 2000)
	if started := pass(tree, entries); started != len(entries) {
		t.Fatalf("%d of %d start", started, len(entries))
	}
	if allocated := testing.AllocsPerRun(5, func() { pass(tree, entries) }); allocated > 0 {
		t.Errorf("%.0f allocations a pass", allocated)
	}
	q := entries[0].Queue
	if allocated := testing.AllocsPerRun(5, func() { tree.Admit(q, tree.gpus(0)[:0]); tree.Share(q); tree.Room(q, GPU) }); allocated > 1 {
		t.Errorf("%.0f allocations for a look", allocated)
	}
}

func BenchmarkPass(b *testing.B) {
	for _, queues := range []int{200, 1000} {
		b.Run(fmt.Sprintf("queues=%d/waiting=2000", queues), func(b *testing.B) {
			tree, entries := big(b, queues, 2000)
			b.ReportAllocs()
			for b.Loop() {
				pass(tree, entries)
			}
		})
	}
}

func BenchmarkChargeRefund(b *testing.B) {
	tree, entries := big(b, 1000, 1000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		e := &entries[i%len(entries)]
		tree.Charge(e.Queue, e.User, e.Ask)
		tree.Refund(e.Queue, e.User, e.Ask)
	}
}

func BenchmarkAdmit(b *testing.B) {
	tree, entries := big(b, 1000, 1000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		tree.Admit(entries[i%len(entries)].Queue, entries[i%len(entries)].Ask)
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, queues := range []int{200, 1000} {
		b.Run(fmt.Sprintf("queues=%d", queues), func(b *testing.B) {
			for b.Loop() {
				big(b, queues, 0)
			}
		})
	}
}
