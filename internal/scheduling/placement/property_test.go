package placement

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// world is a random cluster with the seats held in it.
type world struct {
	*Cluster
	r       *rand.Rand
	classes []Class
	seats   []Seat
	names   []string
	// uniform worlds have nodes that differ in their devices alone, and asks
	// that want nothing else.
	uniform bool
}

// newWorld is a random cluster; equal seeds give equal clusters.
func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{Cluster: New(Options{Seed: seed}), r: rand.New(rand.NewPCG(seed, 7)), uniform: seed%3 == 0}
	if err := w.SetRule("even", func(_ string, facts any) bool { return facts.(int)%2 == 0 }); err != nil {
		t.Fatal(err)
	}
	for i := range 3 + w.r.IntN(20) {
		w.names = append(w.names, fmt.Sprintf("n%02d", (i*7)%31))
		w.describe(t, w.names[i])
	}
	for range 12 {
		w.ask(t)
	}
	return w
}

// describe gives a node a random description.
func (w *world) describe(t *testing.T, name string) {
	t.Helper()
	models := []string{"A", "B", "C"}
	s := NodeSpec{
		Name: name, MilliCPU: w.r.Int64N(64000), MemoryBytes: w.r.Int64N(1 << 38), Pods: 3 + w.r.Int64N(20),
		Domains: []string{fmt.Sprintf("z%d", w.r.IntN(2)), fmt.Sprintf("r%d", w.r.IntN(3))},
		Blocked: w.r.IntN(12) == 0, Facts: w.r.IntN(5),
	}
	if w.r.IntN(3) == 0 {
		s.Other = []Amount{{"nic", w.r.Int64N(4)}, {"disk", w.r.Int64N(9)}}
	}
	if w.uniform {
		s.MilliCPU, s.MemoryBytes = 64000, 1<<38
	}
	model := models[w.r.IntN(3)]
	memory := int64(8000)
	if w.uniform {
		memory = 0
	}
	for i := range w.r.IntN(9) {
		if w.r.IntN(10) == 0 {
			model = models[w.r.IntN(3)]
		}
		s.Devices = append(s.Devices, DeviceSpec{
			UUID: fmt.Sprintf("u%d", i), Model: model, MemoryMiB: memory * int64(w.r.IntN(3)),
			Link: []string{"", "x", "y"}[w.r.IntN(3)], Blocked: w.r.IntN(15) == 0,
		})
	}
	if _, err := w.SetNode(s); err != nil {
		t.Fatal(err)
	}
}

// ask adds a random class.
func (w *world) ask(t *testing.T) {
	t.Helper()
	a := Ask{MilliCPU: w.r.Int64N(12000), MemoryBytes: w.r.Int64N(1 << 33), Pods: int64(w.r.IntN(2)), Policy: Policy(w.r.IntN(5))}
	if w.uniform {
		a.MilliCPU, a.MemoryBytes = 0, 0
	}
	switch w.r.IntN(5) {
	case 0:
		a.GPUs = 1 + w.r.IntN(4)
	case 1, 2:
		a.ShareMilli = 1 + w.r.Int64N(999)
	case 3:
		a.ShareMiB = 1 + w.r.Int64N(9000)
	}
	if w.r.IntN(3) == 0 {
		a.Models, a.InOrder = []string{"B", "A"}, w.r.IntN(2) == 0
	}
	if w.r.IntN(4) == 0 {
		a.Rule = "even"
	}
	if w.r.IntN(4) == 0 {
		a.Other = []Amount{{"nic", w.r.Int64N(3)}}
	}
	k, err := w.Class(a)
	if err != nil {
		t.Fatal(err)
	}
	w.classes = append(w.classes, k)
}

// scope is a random scope.
func (w *world) scope() Scope {
	var in Scope
	if w.r.IntN(3) == 0 {
		if d := w.Domains(1+w.r.IntN(2), nil); len(d) > 0 {
			in.Domain = d[w.r.IntN(len(d))]
		}
	}
	if w.r.IntN(3) == 0 {
		in.Avoid = &NodeSet{}
		for _, id := range w.Nodes(nil) {
			if w.r.IntN(3) == 0 {
				in.Avoid.Add(id)
			}
		}
	}
	return in
}

// act does one random thing.
func (w *world) act(t *testing.T) {
	t.Helper()
	switch w.r.IntN(10) {
	case 0:
		w.describe(t, w.names[w.r.IntN(len(w.names))])
	case 1:
		if w.r.IntN(3) == 0 {
			w.RemoveNode(w.names[w.r.IntN(len(w.names))])
		}
	case 2:
		switch w.r.IntN(6) {
		case 0:
			w.Weigh()
		case 1:
			a := w.Ask(w.classes[w.r.IntN(len(w.classes))])
			if err := w.SetWorkload(append(DefaultWorkload(), Weight{a, 1 + w.r.Int64N(50)})); err != nil {
				t.Fatal(err)
			}
		}
	case 3, 4:
		if len(w.seats) > 0 {
			i := w.r.IntN(len(w.seats))
			w.Release(w.seats[i])
			w.seats = slices.Delete(w.seats, i, i+1)
		}
	default:
		w.place(t)
	}
}

// place places one member and compares it with what is found by looking at
// every node anew.
func (w *world) place(t *testing.T) {
	t.Helper()
	k, in := w.classes[w.r.IntN(len(w.classes))], w.scope()
	cl := &w.Cluster.classes[k]
	want, room := NodeID(-1), int64(0)
	var best choice
	for _, id := range w.Nodes(nil) {
		if in.Avoid.Has(id) || in.Domain != NoDomain && !slices.Contains(w.DomainNodes(in.Domain), id) {
			continue
		}
		fit := w.fits(cl, id)
		room += int64(fit)
		if fit <= 0 {
			continue
		}
		if ch := w.choose(cl, &w.nodes[id]); want < 0 || ch.score > best.score {
			want, best = id, ch
		}
	}
	if got := w.Room(k, in, 1<<40); int64(got) != room {
		t.Fatalf("room of %+v is %d; counted from scratch it is %d", cl.ask, got, room)
	}
	for _, n := range []int{1, int(min(room, 1<<30)), int(min(room, 1<<30)) + 1} {
		if w.CannotFit(k, n, in) && int64(n) <= room {
			t.Fatalf("%d of %+v are said not to fit, and there is room for %d", n, cl.ask, room)
		}
	}
	s, ok := w.Place(k, in)
	if ok != (want >= 0) {
		t.Fatalf("%+v was placed: %t; from scratch: %t", cl.ask, ok, want >= 0)
	}
	if !ok {
		if w.Obstacles(k, in)[Nothing] != 0 {
			t.Fatalf("%+v fits nowhere, yet some node has no obstacle", cl.ask)
		}
		return
	}
	w.seats = append(w.seats, s)
	devices := cl.ask.GPUs
	if cl.ask.share() {
		devices = 1
	}
	if got := len(w.SeatDevices(s, nil)); got != devices {
		t.Fatalf("%+v got %d devices", cl.ask, got)
	}
	if cl.ask.Policy != Random && (s.Node != want || s.Devices != best.devices) {
		t.Fatalf("%+v went to %s devices %b; from scratch it is %s devices %b", cl.ask, w.Name(s.Node), s.Devices, w.Name(want), best.devices)
	}
}

// check recomputes everything that is kept up to date step by step.
func (w *world) check(t *testing.T) {
	t.Helper()
	for i := range w.nodes {
		n := &w.nodes[i]
		for d := range n.devices {
			if f := n.devices[d].free; f < 0 || f > Whole {
				t.Fatalf("device %s of %s has %d milli free", n.uuids[d], n.name, f)
			}
		}
	}
	held := map[string]int64{}
	for _, s := range w.seats {
		for _, u := range w.SeatDevices(s, nil) {
			held[w.Name(s.Node)+u] += int64(s.Milli)
		}
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		for d := range n.devices {
			if got := int64(Whole - n.devices[d].free); got != held[n.name+n.uuids[d]] {
				t.Fatalf("device %s of %s has %d milli held; its seats say %d", n.uuids[d], n.name, got, held[n.name+n.uuids[d]])
			}
		}
	}
	total, models := w.total, slices.Clone(w.models)
	w.total = Totals{}
	for i := range w.models {
		w.models[i] = model{name: w.models[i].name}
	}
	for i := range w.nodes {
		w.account(&w.nodes[i], 1)
	}
	if total != w.total || !reflect.DeepEqual(models, w.models) {
		t.Fatalf("sums drifted: %+v, recomputed %+v", total, w.total)
	}
}

func TestIncrementalEqualsFromScratch(t *testing.T) {
	for seed := range uint64(150) {
		w := newWorld(t, seed)
		for range 120 {
			w.act(t)
		}
		w.check(t)
	}
}

// image is everything about a cluster that may not differ after Undo.
func (w *world) image() string {
	type row struct {
		Node  node
		Uuids []string
	}
	out := fmt.Sprintf("%+v\n", w.total)
	for i := range w.nodes {
		n := w.nodes[i]
		n.frag, n.fragVersion, n.fragEpoch = 0, 0, 0
		n.worth, n.worthVersion, n.worthEpoch = 0, 0, 0
		for len(n.other) > 0 && n.other[len(n.other)-1] == 0 {
			n.other = n.other[:len(n.other)-1]
		}
		out += fmt.Sprintf("%+v\n", row{n, n.uuids})
	}
	for i := range w.models {
		out += fmt.Sprintf("%+v\n", w.models[i])
	}
	return out
}

func TestUndoRestoresEverything(t *testing.T) {
	for seed := range uint64(150) {
		w := newWorld(t, seed)
		for range 40 {
			w.act(t)
		}
		before, seats := w.image(), slices.Clone(w.seats)
		outer := w.Mark()
		var inner Mark
		for i := range 30 {
			if i == 10 {
				inner = w.Mark()
			}
			if i == 20 {
				if seed%2 == 0 {
					w.Undo(inner)
					w.seats = slices.Clone(seats)
					break
				}
				w.Keep(inner)
			}
			if len(w.seats) > 0 && w.r.IntN(3) == 0 {
				w.Release(w.seats[0])
				w.seats = w.seats[1:]
				continue
			}
			w.place(t)
		}
		w.Undo(outer)
		w.seats = seats
		if after := w.image(); after != before {
			t.Fatalf("seed %d: undone, it differs:\n%s\nbefore:\n%s", seed, after, before)
		}
		w.check(t)
		for range 40 {
			w.act(t)
		}
		w.check(t)
	}
}

func TestSameSequenceSameSeats(t *testing.T) {
	for seed := range uint64(20) {
		a, b := newWorld(t, seed), newWorld(t, seed)
		for range 150 {
			a.act(t)
			b.act(t)
		}
		if !slices.Equal(a.seats, b.seats) {
			t.Fatalf("seed %d: the same sequence gave other seats", seed)
		}
	}
}

// TestOrderOfNodesDoesNotShow places on the same nodes, made known in another
// order and with a past, and expects the same names.
func TestOrderOfNodesDoesNotShow(t *testing.T) {
	build := func(order []int) *Cluster {
		c := New(Options{})
		if order[0] != 0 {
			for i := range 5 {
				if _, err := c.SetNode(NodeSpec{Name: fmt.Sprintf("gone%d", i)}); err != nil {
					t.Fatal(err)
				}
				c.RemoveNode(fmt.Sprintf("gone%d", i))
			}
		}
		for _, i := range order {
			s := NodeSpec{Name: fmt.Sprintf("n%02d", i), MilliCPU: 64000}
			for g := range 4 + i%2*4 {
				s.Devices = append(s.Devices, DeviceSpec{UUID: fmt.Sprint(g), Model: "A"})
			}
			if _, err := c.SetNode(s); err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
	up, down := make([]int, 30), make([]int, 30)
	for i := range up {
		up[i], down[29-i] = i, i
	}
	a, b := build(up), build(down)
	for i := range 200 {
		ask := Ask{MilliCPU: 2000, GPUs: 1 + i%3}
		if i%2 == 0 {
			ask = Ask{MilliCPU: 1000, ShareMilli: int64(100 + i%7*100)}
		}
		ka, _ := a.Class(ask)
		kb, _ := b.Class(ask)
		sa, oka := a.Place(ka, Scope{})
		sb, okb := b.Place(kb, Scope{})
		if oka != okb || oka && (a.Name(sa.Node) != b.Name(sb.Node) || sa.Devices != sb.Devices) {
			t.Fatalf("step %d: %s and %s", i, a.Name(sa.Node), b.Name(sb.Node))
		}
	}
}
