package scheduling

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/scheduling/placement"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// Who would start if nodes came: two nodes with 2 A100 each, and queues of which
// one has a limit.
func TestWanting(t *testing.T) {
	limited := []queue.Spec{
		{Name: "small", Weight: 1, Limit: queue.Amounts{"gpu": 6 * placement.Whole}},
		{Name: "stopped", Weight: 1, Stopped: true},
		{Name: queue.Default, Weight: 1},
	}
	in := func(queue string) func(*Request) { return func(r *Request) { r.Queue = queue } }
	for name, c := range map[string]struct {
		queues   []queue.Spec
		requests []Request
		want     []string
	}{
		"what fits starts":         {nil, []Request{gang("a").role("worker", 2, 2).obj()}, nil},
		"more than there is":       {nil, []Request{gang("a").role("worker", 3, 2).obj()}, []string{"a"}},
		"larger than any node":     {nil, []Request{gang("a").role("worker", 1, 8).obj()}, []string{"a"}},
		"a model that is not here": {nil, []Request{gang("a").role("worker", 1, 1, "H100").obj()}, []string{"a"}},
		"a label that is not here": {nil, []Request{gang("a").role("worker", 1, 1).with(func(r *Request) { r.Roles[0].NodeLabels = map[string]string{"pool": "spot"} }).obj()}, []string{"a"}},
		"a pod by itself":          {nil, []Request{gang("a").role("pod", 1, 8).with(func(r *Request) { r.Pod = true }).obj()}, nil},
		"suspended":                {nil, []Request{gang("a").role("worker", 1, 8).with(func(r *Request) { r.Suspended = true }).obj()}, nil},
		"beyond the queue's limit": {limited, []Request{gang("a").role("worker", 1, 7).with(in("small")).obj()}, nil},
		"a stopped queue":          {limited, []Request{gang("a").role("worker", 1, 5).with(in("stopped")).obj()}, nil},
		"a queue that is missing":  {limited, []Request{gang("a").role("worker", 1, 5).with(in("none")).obj()}, nil},
		"together beyond the limit": {limited, []Request{
			gang("a").role("worker", 1, 5).with(in("small")).obj(), gang("b").role("worker", 1, 4).with(in("small")).obj(),
			gang("c").role("worker", 1, 5).obj(),
		}, []string{"a", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			core := NewCore(Options{})
			for i := range c.requests {
				c.requests[i].UID, c.requests[i].Created = c.requests[i].Name, Instant(i+1)
			}
			result := core.Pass(Snapshot{Now: 10, Queues: c.queues, Requests: c.requests, Nodes: []Node{testNode("n1", "A100", 2), testNode("n2", "A100", 2)}})
			before := core.Standing().Tree
			got := core.Wanting(result.Waiting)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if again := core.Wanting(result.Waiting); !cmp.Equal(got, again) || core.Standing().Tree != before {
				t.Errorf("asked again: %v, then %v", got, again)
			}
		})
	}
}
