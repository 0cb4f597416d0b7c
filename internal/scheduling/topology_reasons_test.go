package scheduling

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a person reads who has to be in one rack, or apart.
func TestTopologyInWords(t *testing.T) {
	tests := []struct {
		name  string
		nodes []Node
		held  map[string]int
		gang  *requestBuilder
		want  []string
	}{
		{
			name: "no rack has enough free", nodes: racks(3, 2, 8), held: map[string]int{"r00-n00": 8, "r01-n00": 4, "r02-n01": 8},
			gang: gang("a").role("worker", 4, 4).within(LevelRack, true),
			want: []string{
				"needs 16 GPUs within one rack; of 3 racks r01 has the most free: 12 are free, 4 are held by pod other/on-r01-n00",
				"require one zone instead of one rack (--within zone)",
				"ask for 2 GPUs for each worker instead of 4",
				"ask for 3 workers instead of 4",
			},
		},
		{
			name: "no rack is so large", nodes: racks(2, 2, 4),
			gang: gang("a").role("worker", 3, 4).within(LevelRack, true),
			want: []string{
				"impossible now: needs 12 GPUs within one rack; of 2 racks r00 is the largest, with 8 GPUs",
				"prefer one rack instead of requiring it (--near rack)",
				"ask for 2 GPUs for each worker instead of 4",
				"ask for 2 workers instead of 3",
			},
		},
		{
			name: "enough is free in a rack, but lies badly", nodes: racks(1, 2, 4), held: map[string]int{"r00-n00": 1, "r00-n01": 1},
			gang: gang("a").role("worker", 1, 4).within(LevelRack, true),
			want: []string{
				"must be within one rack; the only rack is r00: enough GPUs are free in all, but each worker needs 4 GPUs on one node and the most free on one is 3",
				"ask for 3 GPUs for each worker instead of 4",
			},
		},
		{
			name: "nobody says where it is", nodes: []Node{testNode("n", "A100", 8)},
			gang: gang("a").role("worker", 1, 4).within(LevelRack, true),
			want: []string{
				"impossible now: must be within one rack, and no node says in which it is; put the label muster.dev/rack on nodes, or do not require it",
				"prefer one rack instead of requiring it (--near rack)",
			},
		},
		{
			name: "one node", nodes: racks(1, 2, 4),
			gang: gang("a").role("worker", 2, 4).within(LevelNode, true),
			want: []string{
				"impossible now: needs 8 GPUs on one node; of 2 nodes r00-n00 is the largest, with 4 GPUs",
				"require one rack instead of one node (--within rack)",
				"ask for 2 GPUs for each worker instead of 4",
				"ask for 1 worker instead of 2",
			},
		},
		{
			name: "more members than nodes", nodes: racks(1, 2, 8),
			gang: gang("a").role("worker", 3, 1).spread(LevelNode, true),
			want: []string{
				"impossible now: no two workers may be on one node, and there are 3; only 2 nodes would do",
				"let workers share a node where there are too few (--spread node)",
				"ask for 2 workers instead of 3",
			},
		},
		{
			name: "too few racks have room", nodes: racks(2, 1, 8), held: map[string]int{"r00-n00": 8},
			gang: gang("a").role("ps", 2, 1).spread(LevelRack, true),
			want: []string{
				"no two ps may be in one rack, and there are 2; only 1 rack has room for one",
				"let ps share a rack where there are too few (--spread rack)",
				"ask for 1 ps instead of 2",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Snapshot{Nodes: tt.nodes, Requests: []Request{tt.gang.obj()}}
			for _, name := range sortedKeys(tt.held) {
				occupied(&s, name, tt.held[name])
			}
			x, ok := Account(s, Key{"vision", "a"}, false)
			if !ok {
				t.Fatal("not found")
			}
			got := []string{x.Reason.Render(clock)}
			for _, a := range x.Advice {
				got = append(got, a.Render(clock))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Room is made in one rack, in that where it is cheapest.
func TestRoomIsMadeInOneRack(t *testing.T) {
	low := func(name, node string) Request {
		return gang(name).role("worker", 1, 4).with(func(r *Request) {
			r.Roles[0].NodeTerms = [][]Expression{{{Key: "metadata.name", Operator: "In", Values: []string{node}, Field: true}}}
		}).obj()
	}
	running := []Request{low("a", "r00-n00"), low("b", "r00-n01"), low("c", "r01-n00"), low("d", "r02-n00"), low("e", "r02-n01")}
	last := gang("new").role("worker", 2, 4).within(LevelRack, true).with(func(r *Request) { r.Priority = 1 }).obj()
	if diff := cmp.Diff([]string{"c"}, evicted(t, racks(3, 2, 4), nil, running, last)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	apart := gang("new").role("worker", 3, 2).spread(LevelRack, true).with(func(r *Request) { r.Priority = 1 }).obj()
	if got := evicted(t, racks(3, 2, 4), nil, running, apart); len(got) != 2 {
		t.Errorf("evicted %v, want one each in the two racks that are full", got)
	}
}

// Nodes are kept free for an overdue gang where it will be in one rack.
func TestPromiseIsOfOneRack(t *testing.T) {
	c := NewCore(Options{Patience: 1})
	for _, n := range racks(2, 2, 4) {
		c.SetNode(n)
	}
	for _, node := range []string{"r00-n00", "r01-n01"} {
		r := gang("on-"+node).role("worker", 1, 4).with(func(r *Request) {
			r.Roles[0].NodeTerms = [][]Expression{{{Key: "metadata.name", Operator: "In", Values: []string{node}, Field: true}}}
		}).obj()
		c.SetRequest(r)
	}
	c.Decide(0)
	c.SetRequest(gang("big").role("worker", 2, 4).within(LevelRack, true).obj())
	c.Decide(1000)
	if len(c.promises) != 1 || len(c.promises[0].nodes) != 2 {
		t.Fatalf("promised: %+v", c.promises)
	}
	a, b := c.sites[c.promises[0].nodes[0]], c.sites[c.promises[0].nodes[1]]
	if a.node.Domains != b.node.Domains {
		t.Errorf("promised are %s and %s", a.node.Name, b.node.Name)
	}
	x, _ := c.Explain("uid-big", 1000)
	if x.Expected == nil || x.Reason.Code() != CodeDomainShort {
		t.Errorf("explained: %+v", x)
	}
}
