package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// The sums of domains are those of their nodes, whatever is placed, undone,
// changed or removed; a node without a name of a level is in no domain of it;
// and the best of each domain are what Place would choose one after the other.
func TestDomainsAlways(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 11))
		c := New(Options{})
		spec := func(i int) NodeSpec {
			s := NodeSpec{
				Name: fmt.Sprintf("n%02d", i), MilliCPU: int64(1000 * (1 + r.IntN(16))), MemoryBytes: 1 << 30, Pods: 10,
				Domains: []string{[]string{"a", "b", ""}[r.IntN(3)], []string{"r", "s", ""}[r.IntN(3)], []string{"x", ""}[r.IntN(2)]}[:r.IntN(4)],
				Blocked: r.IntN(8) == 0,
			}
			for d := range r.IntN(5) {
				s.Devices = append(s.Devices, DeviceSpec{UUID: fmt.Sprint(d), Model: []string{"A", "B"}[r.IntN(2)], Blocked: r.IntN(8) == 0})
			}
			return s
		}
		set := func(i int) {
			if _, err := c.SetNode(spec(i)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 12 {
			set(i)
		}
		for range 30 {
			k, err := c.Class(Ask{MilliCPU: int64(100 * r.IntN(10)), Pods: 1, GPUs: r.IntN(3)})
			if err != nil {
				t.Fatal(err)
			}
			switch r.IntN(6) {
			case 0:
				set(r.IntN(12))
			case 1:
				c.RemoveNode(fmt.Sprintf("n%02d", r.IntN(12)))
			case 2:
				m := c.Mark()
				c.PlaceMany(k, 3, Scope{}, nil)
				c.Undo(m)
			default:
				c.Place(k, Scope{})
			}
			checkSums(t, c, seed)
			checkBest(t, c, k, r.IntN(4), seed)
		}
	}
}

func checkSums(t *testing.T, c *Cluster, seed uint64) {
	t.Helper()
	for depth := 1; depth <= 3; depth++ {
		for _, d := range c.Domains(depth, nil) {
			if path := c.DomainPath(d); path[depth-1] == "" {
				t.Fatalf("seed %d: a domain without a name: %q", seed, path)
			}
			var want Totals
			for _, id := range c.DomainNodes(d) {
				n := c.DomainTotals(Alone(id))
				want.add(&n, 1)
				if c.NodeDomain(id, depth) != d {
					t.Fatalf("seed %d: %s is not where it is", seed, c.Name(id))
				}
			}
			if got := c.DomainTotals(d); got != want {
				t.Fatalf("seed %d: %v has %+v, its nodes %+v", seed, c.DomainPath(d), got, want)
			}
		}
	}
	var want Totals
	for _, id := range c.Nodes(nil) {
		n := c.DomainTotals(Alone(id))
		want.add(&n, 1)
	}
	if got := c.Totals(); got != want {
		t.Fatalf("seed %d: all have %+v, the nodes %+v", seed, got, want)
	}
}

func checkBest(t *testing.T, c *Cluster, k Class, depth int, seed uint64) {
	t.Helper()
	in := Scope{}
	if zones := c.Domains(1, nil); depth > 1 && len(zones) > 0 && seed%2 == 0 {
		in.Domain = zones[0]
	}
	got := c.BestOfEach(k, in, depth, nil)
	avoid := &NodeSet{}
	for _, id := range c.Nodes(nil) {
		if depth > 0 && c.NodeDomain(id, depth) == NoDomain {
			avoid.Add(id)
		}
	}
	m := c.Mark()
	defer c.Undo(m)
	var want []NodeID
	for {
		seat, ok := c.Place(k, Scope{Domain: in.Domain, Avoid: avoid})
		if !ok {
			break
		}
		want = append(want, seat.Node)
		for _, id := range c.Nodes(nil) {
			if id == seat.Node || depth > 0 && c.NodeDomain(id, depth) == c.NodeDomain(seat.Node, depth) {
				avoid.Add(id)
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("seed %d: the best at depth %d are %v, and one after the other %v", seed, depth, got, want)
	}
}
