package queue

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAdmit(t *testing.T) {
	specs := []Spec{
		{Name: "team", Guaranteed: Amounts{"gpu": 16_000}, Limit: Amounts{"gpu": 24_000}},
		{Name: "x", Parent: "team", Guaranteed: Amounts{"gpu": 8000}}, {Name: "y", Parent: "team", Guaranteed: Amounts{"gpu": 4000}, NoBorrowing: true},
		{Name: "private", Guaranteed: Amounts{"gpu": 16_000}, LendingLimit: Amounts{"gpu": 0}},
		{Name: "held", Stopped: true}, {Name: "below", Parent: "held"}, {Name: "old", Gone: true},
	}
	tests := []struct {
		name    string
		charged map[string]int64
		queue   string
		gpus    int64
		want    Block
		at      string
	}{
		{name: "within the guarantee", queue: "x", gpus: 8000},
		{name: "borrowed from the parent's rest and the cluster", queue: "x", gpus: 24_000},
		{name: "the parent's limit", charged: map[string]int64{"y": 4000}, queue: "x", gpus: 24_000, at: "team",
			want: Block{Rule: RuleLimit, Class: GPU, Allowed: 24_000, Used: 4000, Missing: 4000}},
		{name: "may not borrow", charged: map[string]int64{"y": 3000}, queue: "y", gpus: 2000, at: "y",
			want: Block{Rule: RuleBorrowing, Class: GPU, Allowed: 4000, Used: 3000, Missing: 1000}},
		{name: "work of the parent itself", charged: map[string]int64{"x": 16_000}, queue: "team", gpus: 9000, at: "team",
			want: Block{Rule: RuleLimit, Class: GPU, Allowed: 24_000, Used: 16_000, Missing: 1000}},
		{name: "what is not lent is kept", queue: "default", gpus: 56_000, at: "",
			want: Block{Rule: RuleReserved, Class: GPU, Allowed: 64_000, Used: 16_000, Missing: 8000}},
		{name: "its owner gets it", charged: map[string]int64{"default": 48_000}, queue: "private", gpus: 16_000},
		{name: "more than there is", charged: map[string]int64{"default": 48_000}, queue: "private", gpus: 20_000, at: "",
			want: Block{Rule: RuleCapacity, Class: GPU, Allowed: 64_000, Used: 64_000, Missing: 4000}},
		{name: "stopped above", queue: "below", gpus: 1000, at: "held", want: Block{Rule: RuleStopped}},
		{name: "deleted", queue: "old", gpus: 1000, at: "old", want: Block{Rule: RuleGone}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := grow(t, specs...)
			for _, name := range []string{"default", "x", "y"} {
				tree.Charge(tree.must(name), tree.User("u"), tree.gpus(tt.charged[name]))
			}
			got, ok := tree.Admit(tree.must(tt.queue), tree.gpus(tt.gpus))
			if ok != (tt.want.Rule == RuleNone) {
				t.Errorf("admitted: %t", ok)
			}
			if name := tree.Name(got.Queue); name != tt.at {
				t.Errorf("blocked at %q, want %q", name, tt.at)
			}
			got.Queue = 0
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReclaimAndLenders(t *testing.T) {
	tree := grow(t,
		Spec{Name: "a", Guaranteed: Amounts{"gpu": 16_000}}, Spec{Name: "a1", Parent: "a", Guaranteed: Amounts{"gpu": 8000}}, Spec{Name: "a2", Parent: "a"},
		Spec{Name: "b", Guaranteed: Amounts{"gpu": 16_000}, MinRunTime: 7}, Spec{Name: "c", Guaranteed: Amounts{"A100": 8000}, Reclaim: ReclaimNever})
	u := tree.User("u")
	for name, milli := range map[string]int64{"a2": 10_000, "b": 20_000, "default": 34_000} {
		tree.Charge(tree.must(name), u, tree.gpus(milli))
	}
	type taken struct {
		From   string
		Amount int64
	}
	names := func(sources []Source) (out []taken) {
		for _, s := range sources {
			out = append(out, taken{tree.Name(s.Queue), s.Amount})
		}
		return out
	}
	// a is guaranteed 16 and has 10: 6 more are due from whoever borrows, and
	// a1's own 8 from a2 as well.
	if diff := cmp.Diff([]taken{{"a2", 10_000}, {"b", 4000}, {"default", 34_000}}, names(tree.Reclaimable(tree.must("a1"), tree.gpus(6000), nil))); diff != "" {
		t.Errorf("6 for a1 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]taken{{"a2", 10_000}}, names(tree.Reclaimable(tree.must("a1"), tree.gpus(8000), nil))); diff != "" {
		t.Errorf("8 for a1 (-want +got):\n%s", diff)
	}
	if got := tree.Reclaimable(tree.must("b"), tree.gpus(1000), nil); got != nil {
		t.Errorf("b has its guarantee and may take %v", got)
	}
	if got := tree.Reclaimable(tree.must("c"), tree.gpus(1000), nil); got != nil {
		t.Errorf("c never reclaims and may take %v", got)
	}
	if tree.MinRunTime(tree.must("b")) != 7 {
		t.Error("the minimum run time is lost")
	}
	tree.Refund(tree.must("default"), u, tree.gpus(34_000))
	var lent []taken
	for _, l := range tree.Lenders(tree.must("b"), GPU, nil) {
		lent = append(lent, taken{tree.Name(l.From), l.Amount})
	}
	// 64 less 30 in use; the 4 that b borrows are of those that nobody owns.
	if diff := cmp.Diff([]taken{{"a", 6000}, {"c", 8000}, {"", 20_000}}, lent); diff != "" {
		t.Errorf("lenders of b (-want +got):\n%s", diff)
	}
}

// held is what a test knows to be charged.
type held struct {
	queue Queue
	user  User
	ask   Vector
}

// check compares every sum of the tree with the sum of the charges.
func check(t *testing.T, tree *Tree, charges []held) {
	t.Helper()
	want := make([]int64, len(tree.used))
	for _, h := range charges {
		for at := tree.leaf(h.queue); at >= 0; at = int(tree.nodes[at].parent) {
			for c, amount := range h.ask {
				want[at*tree.classes.Len()+c] += amount
			}
		}
	}
	if !slices.Equal(want, tree.used) {
		t.Fatalf("the tree's sums %v, the charges' %v", tree.used, want)
	}
	// What is occupied, from the bottom up, by the definition.
	width := tree.classes.Len()
	occupied := make([]int64, len(tree.used))
	for at := len(tree.nodes) - 1; at >= 0; at-- {
		n := tree.nodes[at]
		for c := range width {
			i := at*width + c
			if n.first == n.last {
				occupied[i] = tree.used[i]
			}
			if at > 0 {
				occupied[int(n.parent)*width+c] += max(occupied[i], tree.reserved[i])
			}
		}
	}
	if !slices.Equal(occupied, tree.occupied) {
		t.Fatalf("occupied %v, want %v", tree.occupied, occupied)
	}
}

// Random trees under random work: what Admit allows never breaks a limit, a
// guarantee of a queue that may not borrow, what is kept from lending, or the
// capacity; sums are sums; undo undoes.
func TestAdmittedWorkKeepsEveryRule(t *testing.T) {
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 2))
		tree := grow(t, forest(r, 1+r.IntN(15))...)
		var charges []held
		admitted, blocked := 0, 0
		for step := range 150 {
			tree.Advance(int64(step * 10))
			if len(charges) > 0 && r.IntN(3) == 0 {
				k := r.IntN(len(charges))
				if !tree.Refund(charges[k].queue, charges[k].user, charges[k].ask) {
					t.Fatalf("seed %d: a charge cannot be taken back", seed)
				}
				charges = slices.Delete(charges, k, k+1)
				continue
			}
			h := held{tree.queueOf(1 + r.IntN(len(tree.nodes)-1)), tree.User(string(rune('a' + r.IntN(4)))), randomAsk(r, tree)}
			before, mark := slices.Clone(tree.occupied), tree.Mark()
			block, ok := tree.Admit(h.queue, h.ask)
			if !ok {
				blocked++
				if block.Missing <= 0 {
					t.Fatalf("seed %d: blocked by %+v", seed, block)
				}
				if !tree.Charge(h.queue, h.user, h.ask) {
					t.Fatal("not charged")
				}
				tree.Undo(mark)
				if !slices.Equal(before, tree.occupied) {
					t.Fatalf("seed %d: undo does not undo", seed)
				}
				continue
			}
			admitted++
			tree.Charge(h.queue, h.user, h.ask)
			charges = append(charges, h)
			for i := range tree.cap {
				if tree.cap[i] < max(tree.used[i], tree.occupied[i]) {
					t.Fatalf("seed %d: %d used and %d occupied of %d at node %q", seed, tree.used[i], tree.occupied[i], tree.cap[i], tree.nodes[i/tree.classes.Len()].name)
				}
			}
		}
		check(t, tree, charges)
		if admitted == 0 {
			t.Fatalf("seed %d: nothing was admitted, %d blocked", seed, blocked)
		}
		tree.Keep()
	}
}

// Whatever has been borrowed, what a queue is guaranteed is admitted, or so
// once what may be taken back was: and never more than that.
func TestGuaranteeIsAdmissibleOrReclaimable(t *testing.T) {
	direct, after := 0, 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 3))
		tree := grow(t, forest(r, 2+r.IntN(12))...)
		u := tree.User("u")
		for range 200 {
			q, ask := tree.queueOf(1+r.IntN(len(tree.nodes)-1)), randomAsk(r, tree)
			if _, ok := tree.Admit(q, ask); ok {
				tree.Charge(q, u, ask)
			}
		}
		for at := 1; at < len(tree.nodes); at++ {
			q := tree.queueOf(at)
			if tree.leaf(q) != at {
				continue
			}
			ask := tree.classes.Zero()
			for c := range ask {
				ask[c] = max(0, tree.guaranteed[at*tree.classes.Len()+c]-tree.used[at*tree.classes.Len()+c])
			}
			for c := firstModel; int(c) < len(ask); c++ {
				ask[c] = min(ask[c], ask[GPU]/2) // An ask for two models at most.
			}
			if !tree.Within(q, ask) {
				continue
			}
			_, ok := tree.Admit(q, ask)
			if ok {
				direct++
			}
			mark := tree.Mark()
			for !ok {
				sources := tree.Reclaimable(q, ask, nil)
				if len(sources) == 0 {
					block, _ := tree.Admit(q, ask)
					t.Fatalf("seed %d: %s cannot have its guarantee %v: %+v", seed, tree.Name(q), ask, block)
				}
				s := sources[0]
				take := tree.classes.Zero()
				take[s.Class] = s.Amount
				if s.Amount <= 0 || !tree.Refund(s.Queue, u, take) {
					t.Fatalf("seed %d: %d of %s are to be taken back from %s", seed, s.Amount, tree.classes.Name(s.Class), tree.Name(s.Queue))
				}
				if leaf := Queue(tree.leaf(s.Queue)); tree.at(tree.used, leaf, s.Class) < tree.at(tree.guaranteed, leaf, s.Class) {
					t.Fatalf("seed %d: %s falls below its guarantee", seed, tree.Name(s.Queue))
				}
				if _, ok = tree.Admit(q, ask); ok {
					after++
				}
			}
			tree.Undo(mark)
		}
	}
	if direct < 100 || after < 100 {
		t.Errorf("%d admitted at once and %d after reclaiming: too few to mean anything", direct, after)
	}
}

// Room is exact: that much is admitted, one more is not.
func TestRoom(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 4))
		tree := grow(t, forest(r, 1+r.IntN(10))...)
		for range 60 {
			q, ask := tree.queueOf(1+r.IntN(len(tree.nodes)-1)), randomAsk(r, tree)
			if _, ok := tree.Admit(q, ask); ok {
				tree.Charge(q, tree.User(""), ask)
			}
			c := Class(r.IntN(tree.classes.Len()))
			room, just := tree.Room(q, c), tree.classes.Zero()
			just[c] = room
			if block, ok := tree.Admit(q, just); !ok {
				t.Fatalf("seed %d: room for %d, blocked by %+v", seed, room, block)
			}
			just[c]++
			if _, ok := tree.Admit(q, just); ok {
				t.Fatalf("seed %d: room for %d, and for more", seed, room)
			}
		}
	}
}

func TestRefusedCharges(t *testing.T) {
	tree := grow(t)
	q, u := tree.must("default"), tree.User("u")
	for _, ask := range []Vector{{-1}, {MaxAmount + 1}, make(Vector, tree.classes.Len()+1)} {
		if tree.Charge(q, u, ask) {
			t.Errorf("%v is charged", ask)
		}
	}
	tree.Charge(q, u, Vector{MaxAmount})
	if tree.Charge(q, u, Vector{1}) || tree.Charge(Root, u, Vector{0}) || tree.Refund(q, tree.User("v"), Vector{1}) || tree.Refund(q, u, Vector{0, 1}) || tree.Refund(q, u, Vector{-1}) {
		t.Error("what cannot be is done")
	}
	if tree.Held(q, u, CPU) != MaxAmount || tree.Held(q, tree.User("v"), CPU) != 0 {
		t.Error("a charge is lost")
	}
}

func TestDecay(t *testing.T) {
	for _, x := range []int64{0, 1, 250, 999, 1000, 1500, 123_456, 5_000_000} {
		if got, want := remaining(x, 1000), math.Exp2(-float64(x)/1000); math.Abs(got-want) > 1e-14*want {
			t.Errorf("remaining(%d) = %g, want %g", x, got, want)
		}
	}
	if got := remaining(math.MaxInt64, 1); got != 0 {
		t.Errorf("after all time: %g", got)
	}
	tree := grow(t, Spec{Name: "a"})
	a, u := tree.must("a"), tree.User("u")
	tree.Charge(a, u, tree.gpus(8000))
	tree.Advance(1000)
	tree.Refund(a, u, tree.gpus(8000))
	tree.Advance(3000)
	tree.Advance(10) // The clock goes back.
	if got := tree.Decayed(a, GPU); math.Abs(got-1000) > 1e-9 || tree.Now() != 3000 {
		t.Errorf("half of 8 GPUs, halved twice: %g at %d", got, tree.Now())
	}
	record := int(tree.records[recordKey{int32(tree.leaf(a)), u}])
	if share := tree.userShare(record); math.Abs(tree.lately[record*tree.classes.Len()+int(GPU)]-1000) > 1e-9 {
		t.Errorf("the user: %v, share %v", tree.lately, share)
	}
}

// How often somebody looks does not matter, and parts add up to the whole.
func TestDecayIsConsistent(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 5))
		specs := forest(r, 1+r.IntN(8))
		often, seldom := grow(t, specs...), grow(t, specs...)
		now := int64(0)
		for range 50 {
			for end := now + r.Int64N(3000); now < end; {
				now = min(end, now+1+r.Int64N(500))
				often.Advance(now)
				for at := range often.nodes {
					often.Share(Queue(at))
				}
			}
			seldom.Advance(now)
			q, ask := often.queueOf(1+r.IntN(len(often.nodes)-1)), randomAsk(r, often)
			for _, tree := range []*Tree{often, seldom} {
				u := tree.User("u")
				if r := now % 3; r == 0 || !tree.Refund(q, u, ask) {
					tree.Charge(q, u, ask)
				}
			}
		}
		for at := range often.nodes {
			for c := range often.classes.Len() {
				a, b := often.Decayed(Queue(at), Class(c)), seldom.Decayed(Queue(at), Class(c))
				if math.Abs(a-b) > 1e-9*max(1, a) {
					t.Fatalf("seed %d: %g when seen often, %g when seldom", seed, a, b)
				}
				var parts float64
				for child := often.nodes[at].first; child < often.nodes[at].last; child++ {
					parts += often.Decayed(Queue(child), Class(c))
				}
				if often.nodes[at].first < often.nodes[at].last && math.Abs(a-parts) > 1e-9*max(1, a) {
					t.Fatalf("seed %d: the parts are %g of %g", seed, parts, a)
				}
			}
		}
	}
}

func TestCarry(t *testing.T) {
	specs := []Spec{{Name: "a"}, {Name: "a1", Parent: "a"}, {Name: "b"}}
	old := grow(t, specs...)
	u := old.User("u")
	old.Charge(old.must("a1"), u, old.gpus(4000))
	old.Charge(old.must("a"), u, old.gpus(1000))
	old.Charge(old.must("b"), u, old.gpus(2000))
	old.Advance(1000)
	next, _ := Build(append(specs[:2], Spec{Name: "c"}), Options{Models: []string{"H100"}, HalfLife: 1000})
	if diff := cmp.Diff([]string{"b"}, next.Carry(old)); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
	a := next.must("a")
	if next.Used(a, GPU) != 5000 || next.Held(a, next.User("u"), GPU) != 1000 || math.Abs(next.Decayed(a, GPU)-2500) > 1e-9 {
		t.Errorf("carried: used %d, decayed %g", next.Used(a, GPU), next.Decayed(a, GPU))
	}
	again, _ := Build(append(specs[:2], Spec{Name: "b", Gone: true}), Options{HalfLife: 1000})
	if lost := again.Carry(old); lost != nil || again.Used(again.must("b"), GPU) != 2000 || !again.Gone(again.must("b")) {
		t.Errorf("lost %v", lost)
	}
}
