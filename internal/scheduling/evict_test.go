package scheduling

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/placement"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// evicted are the names of what is evicted when the last request arrives an
// hour after the others were started.
func evicted(t *testing.T, nodes []Node, queues []queue.Spec, running []Request, last Request) []string {
	t.Helper()
	c := NewCore(Options{})
	for _, n := range nodes {
		c.SetNode(n)
	}
	c.SetQueues(queues)
	for _, r := range running {
		c.SetRequest(r)
		if len(c.Decide(1).Plans) != 1 {
			t.Fatalf("%s does not start", r.Name)
		}
	}
	c.SetRequest(last)
	var out []string
	for _, e := range c.Decide(Instant(estimate.Hour)).Evictions {
		out = append(out, e.Name)
	}
	slices.Sort(out)
	return out
}

func TestRoomIsMadeForAnyRequest(t *testing.T) {
	nodes := []Node{testNode("a", "A100", 4), testNode("b", "H100", 4)}
	low := func(name string, cpu int64, gpus int32, models ...string) Request {
		return gang(name).role("worker", 1, gpus, models...).with(func(r *Request) { r.Roles[0].Resources.MilliCPU = cpu }).obj()
	}
	important := func(b *requestBuilder) Request { return b.with(func(r *Request) { r.Priority = 1 }).obj() }
	full := []Request{low("a1", 8000, 2, "A100"), low("a2", 8000, 2, "A100"), low("b1", 8000, 4, "H100"), low("b2", 8000, 0)}
	tests := []struct {
		name string
		last Request
		want []string
	}{
		{"CPU alone", important(gang("new").role("ps", 1, 0).with(func(r *Request) { r.Roles[0].Resources.MilliCPU = 8000 })), []string{"b2"}},
		{"two roles", important(gang("new").role("ps", 1, 0).role("worker", 2, 2)), []string{"a1", "a2"}},
		{"roles of two models", important(gang("new").role("x", 1, 2, "A100").role("y", 1, 1, "H100")), []string{"a2", "b1"}},
		{"more than there is", important(gang("new").role("x", 3, 4)), nil},
		{"not important", gang("new").role("x", 1, 4).obj(), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, evicted(t, nodes, nil, full, tt.last)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Of what was borrowed no more is taken back than is owed: nobody falls below
// the guarantee but by the last one that reaches beyond it.
func TestGuaranteesAreTakenBackFromThoseWhoBorrow(t *testing.T) {
	spec := func(name string, gpus int64) queue.Spec {
		return queue.Spec{Name: name, Weight: 1, Guaranteed: queue.Amounts{"gpu": gpus * placement.Whole}}
	}
	queues := []queue.Spec{spec("claims", 4), spec("borrows", 1), spec("keeps", 3)}
	in := func(name, q string, gpus int32) Request {
		return gang(name).role("worker", 1, gpus).with(func(r *Request) { r.Queue = q }).obj()
	}
	var running []Request
	for i := range 5 {
		running = append(running, in(fmt.Sprintf("b%d", i), "borrows", 1))
	}
	running = append(running, in("k0", "keeps", 3))
	got := evicted(t, []Node{testNode("a", "A100", 8)}, queues, running, in("new", "claims", 4))
	if len(got) != 4 || slices.Contains(got, "k0") {
		t.Errorf("evicted %v, want four of those that borrow", got)
	}
	if got := evicted(t, []Node{testNode("a", "A100", 8)}, queues, running, in("new", "claims", 5)); len(got) > 0 {
		t.Errorf("%v are evicted for more than is guaranteed", got)
	}
}
