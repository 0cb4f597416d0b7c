package scheduling

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// clock shows an instant as the number it is, as minutes past 14:00.
func clock(i Instant) string { return fmt.Sprintf("14:%02d", i) }

func TestPlanIsWhole(t *testing.T) {
	s := Snapshot{
		Nodes:    []Node{testNode("here", "A100", 8)},
		Requests: []Request{gang("resnet").role("ps", 2, 0).role("worker", 3, 2, "A100").obj()},
	}
	plan := Decide(s).Plans
	if len(plan) != 1 || len(plan[0].Members) != 5 {
		t.Fatalf("plans: %+v", plan)
	}
	ports := map[int32]bool{}
	var gpus []string
	for _, m := range plan[0].Members {
		ports[m.Port] = true
		gpus = append(gpus, m.GPUs...)
	}
	if len(ports) != 5 || ports[0] {
		t.Errorf("members share ports: %v", ports)
	}
	want := []string{"here-0", "here-1", "here-2", "here-3", "here-4", "here-5"}
	if diff := cmp.Diff(want, gpus); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
}

func TestPlacing(t *testing.T) {
	tests := []struct {
		name  string
		nodes []Node
		req   Request
		// want is the node of each member; nil if it must wait.
		want []string
	}{
		{
			name:  "the preferred model first, the other where it runs out",
			nodes: []Node{testNode("a", "A100", 1), testNode("h", "H100", 1)},
			req:   gang("g").role("worker", 2, 1, "H100", "A100").obj(),
			want:  []string{"h", "a"},
		},
		{
			name:  "a role with no choice goes before one that has",
			nodes: []Node{testNode("a", "A100", 1), testNode("h", "H100", 1)},
			req:   gang("g").role("any", 1, 1, "H100", "A100").role("big", 1, 1, "H100").obj(),
			want:  []string{"a", "h"},
		},
		{
			name: "best fit: the node where the fewest stay behind",
			nodes: []Node{
				edited(testNode("large", "A100", 8), func(n *Node) { n.Allocatable = n.Allocatable.times(8) }),
				testNode("small", "A100", 2),
			},
			req:  gang("g").role("worker", 1, 2).obj(),
			want: []string{"small"},
		},
		{
			name:  "members without GPUs keep off nodes with GPUs",
			nodes: []Node{testNode("a", "A100", 8), testNode("cpu", "", 0)},
			req:   gang("g").role("ps", 2, 0).obj(),
			want:  []string{"cpu", "cpu"},
		},
		{
			name:  "GPUs of one member are of one model",
			nodes: []Node{withDevices(testNode("mixed", "A100", 1), "H100")},
			req:   gang("g").role("worker", 1, 2).obj(),
		},
		{
			name:  "never a part of a gang",
			nodes: []Node{testNode("a", "A100", 3)},
			req:   gang("g").role("worker", 2, 2).obj(),
		},
		{
			name:  "a model in any letter case",
			nodes: []Node{testNode("a", "A100", 1)},
			req:   gang("g").role("worker", 1, 1, "a100").obj(),
			want:  []string{"a"},
		},
		{
			name: "a cordon and a taint keep off, a toleration does not",
			nodes: []Node{
				edited(testNode("a", "A100", 1), func(n *Node) { n.Unschedulable = true }),
				edited(testNode("b", "A100", 1), func(n *Node) { n.Taints = []Taint{{"gpu", "yes", "NoSchedule"}} }),
			},
			req: gang("g").role("worker", 1, 1).with(func(r *Request) {
				r.Roles[0].Tolerations = []Toleration{{Key: "gpu", Exists: true}}
			}).obj(),
			want: []string{"b"},
		},
		{
			name:  "affinity and selector",
			nodes: []Node{testNode("a", "A100", 1), edited(testNode("b", "A100", 1), func(n *Node) { n.Labels = map[string]string{"zone": "2"} })},
			req: gang("g").role("worker", 1, 1).with(func(r *Request) {
				r.Roles[0].NodeTerms = [][]Expression{{{Key: "zone", Operator: "Gt", Values: []string{"1"}}}}
			}).obj(),
			want: []string{"b"},
		},
		{
			name: "volumes tie to nodes that can use all of them",
			nodes: []Node{
				edited(testNode("a", "A100", 1), func(n *Node) { n.Labels = map[string]string{"zone": "1"} }),
				edited(testNode("b", "A100", 1), func(n *Node) { n.Labels = map[string]string{"zone": "2"} }),
				edited(testNode("c", "A100", 1), func(n *Node) { n.Labels = map[string]string{"zone": "3"} }),
			},
			req: gang("g").role("worker", 1, 1).with(func(r *Request) {
				in := func(zones ...string) [][]Expression {
					return [][]Expression{{{Key: "zone", Operator: "In", Values: zones}}}
				}
				r.Roles[0].Volumes = []Volume{{Claim: "data", Terms: in("2", "3")}, {Claim: "code", Terms: in("1", "3")}}
			}).obj(),
			want: []string{"c"},
		},
		{
			name:  "a member that is done gets an address and nothing else",
			nodes: []Node{testNode("a", "A100", 1)},
			req: gang("g").role("worker", 2, 1).with(func(r *Request) {
				r.Roles[0].Done = []int32{0}
			}).obj(),
			want: []string{"a", "a"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			result := Decide(Snapshot{Nodes: tt.nodes, Requests: []Request{tt.req}})
			var got []string
			for _, p := range result.Plans {
				for _, m := range p.Members {
					got = append(got, m.Node)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			if (len(result.Plans) == 1) == (len(result.Waiting) == 1) {
				t.Errorf("%d plans and %d waiting", len(result.Plans), len(result.Waiting))
			}
		})
	}
}

func edited(n Node, edit func(*Node)) Node {
	edit(&n)
	return n
}

func withDevices(n Node, models ...string) Node {
	for _, m := range models {
		n.Devices = append(n.Devices, Device{UUID: n.Name + "-" + m, Index: len(n.Devices), Model: m})
	}
	return n
}

func TestOrder(t *testing.T) {
	s := Snapshot{
		Nodes: []Node{testNode("here", "A100", 4)},
		Requests: []Request{
			gang("late").role("worker", 1, 2).with(func(r *Request) { r.Created = 3 }).obj(),
			gang("big").role("worker", 1, 8).with(func(r *Request) { r.Created = 1 }).obj(),
			gang("early").role("worker", 1, 2).with(func(r *Request) { r.Created = 2 }).obj(),
			gang("urgent").role("worker", 1, 2).with(func(r *Request) { r.Created, r.Priority = 4, 10 }).obj(),
		},
	}
	result := Decide(s)
	var got []string
	for _, p := range result.Plans {
		got = append(got, p.Name)
	}
	for _, w := range result.Waiting {
		got = append(got, w.Name+" waits")
	}
	want := []string{"urgent", "early", "big waits", "late waits"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPortsRotate(t *testing.T) {
	s := Snapshot{Nodes: []Node{testNode("here", "", 0)}, Requests: []Request{gang("g").role("worker", 3, 0).obj()}}
	first := Decide(s).Plans[0]
	s.Requests[0].Attempt = 1
	second := Decide(s).Plans[0]
	for _, a := range first.Members {
		for _, b := range second.Members {
			if a.Port == b.Port {
				t.Errorf("port %d was refused and is offered again at once", a.Port)
			}
		}
	}
}

func TestReasons(t *testing.T) {
	issue := testNode("here", "A100", 8)
	issue.Devices = issue.Devices[:5]
	issue.Devices[4].Foreign = []Process{{PID: 4242, User: "alice", Command: "python"}}
	held := Placement{Gang: Key{"vision", "resnet"}, UID: "other", Attempt: 1, Created: 2, Members: []PlacedMember{
		{Assignment: Assignment{Role: "worker", Node: "here", GPUs: []string{"here-0", "here-1"}, Port: 20000}, Resources: Resources{MilliCPU: 8000}},
	}}
	sick := testNode("here", "A100", 1)
	sick.Devices[0].Unhealthy = "Xid 79: fallen off the bus"
	tests := []struct {
		name string
		snap Snapshot
		req  Request
		want string
	}{
		{
			name: "held by a gang and by a foreign process",
			snap: Snapshot{Nodes: []Node{issue}, Placements: []Placement{held}},
			req:  gang("g").role("worker", 2, 2, "A100").obj(),
			want: "needs 4 A100 at once; 2 are free here, 2 are held by vision/resnet since 14:02, " +
				"1 by process 4242 of alice (python), which is not Muster's",
		},
		{
			name: "a model that no node has",
			snap: Snapshot{Nodes: []Node{testNode("here", "A100", 8)}},
			req:  gang("g").role("worker", 1, 1, "H100").obj(),
			want: "impossible now: no node has an H100; this machine has 8 A100",
		},
		{
			name: "no GPU at all",
			snap: Snapshot{Nodes: []Node{testNode("here", "", 0)}},
			req:  gang("g").role("worker", 1, 1).obj(),
			want: "impossible now: this machine has no GPU",
		},
		{
			name: "more on one node than any has",
			snap: Snapshot{Nodes: []Node{testNode("a", "A100", 4), testNode("b", "A100", 8)}},
			req:  gang("g").role("worker", 1, 16, "A100").obj(),
			want: "impossible now: each worker needs 16 A100 on one node; the largest node has 8 A100",
		},
		{
			name: "more than the machine has",
			snap: Snapshot{Nodes: []Node{testNode("here", "A100", 8)}},
			req:  gang("g").role("worker", 3, 4, "A100").obj(),
			want: "impossible now: needs 12 A100 at once; this machine has 8 A100 in all",
		},
		{
			name: "out of order",
			snap: Snapshot{Nodes: []Node{sick}},
			req:  gang("g").role("worker", 1, 1).obj(),
			want: "needs 1 GPU at once; none is free here, 1 is out of order (Xid 79: fallen off the bus)",
		},
		{
			name: "CPU that others hold",
			snap: Snapshot{Nodes: []Node{testNode("here", "A100", 8)}, Placements: []Placement{held}},
			req:  gang("g").role("worker", 1, 0).with(func(r *Request) { r.Roles[0].Resources.MilliCPU = 12000 }).obj(),
			want: "needs 12 CPUs at once; 8 CPUs free, the rest is held by vision/resnet",
		},
		{
			name: "memory that no machine has",
			snap: Snapshot{Nodes: []Node{testNode("here", "A100", 8)}},
			req:  gang("g").role("worker", 1, 0).with(func(r *Request) { r.Roles[0].Resources.Memory = 128 << 30 }).obj(),
			want: "impossible now: each worker needs 128 GiB of memory on one node; this machine has 64 GiB of memory",
		},
		{
			name: "ports",
			snap: Snapshot{Nodes: []Node{edited(testNode("here", "", 0), func(n *Node) { n.Ports.Last = 20001 })}},
			req:  gang("g").role("worker", 3, 0).obj(),
			want: "needs 3 ports at once; 2 are free on the nodes",
		},
		{
			name: "enough in all, not on one node",
			snap: Snapshot{Nodes: []Node{testNode("a", "A100", 2), testNode("b", "A100", 2)}, Placements: []Placement{
				{Gang: Key{"x", "y"}, UID: "x", Members: []PlacedMember{
					{Assignment: Assignment{Node: "a", GPUs: []string{"a-0"}}}, {Assignment: Assignment{Node: "b", Index: 1, GPUs: []string{"b-0"}}},
				}},
			}},
			req:  gang("g").role("worker", 1, 2, "A100").obj(),
			want: "enough GPUs are free in all, but each worker needs 2 A100 on one node and the most free on one is 1",
		},
		{
			name: "cordoned",
			snap: Snapshot{Nodes: []Node{edited(testNode("here", "", 0), func(n *Node) { n.Unschedulable = true })}},
			req:  gang("g").role("worker", 1, 0).obj(),
			want: "no node takes role worker: here is cordoned",
		},
		{
			name: "cooling off",
			req:  gang("g").role("worker", 1, 0).with(func(r *Request) { r.NotBefore = 9 }).obj(),
			want: "cooling off after a failure; tried again at 14:09",
		},
		{
			name: "suspended",
			req:  gang("g").with(func(r *Request) { r.Suspended = true }).obj(),
			want: "suspended; set suspend to false to run again",
		},
		{
			name: "no node",
			req:  gang("g").role("worker", 1, 0).obj(),
			want: "there is no node to run on yet",
		},
		{
			name: "fits",
			snap: Snapshot{Nodes: []Node{testNode("here", "", 0)}},
			req:  gang("g").role("worker", 1, 0).obj(),
			want: "everything it needs is free; it is about to start",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.snap.Requests = append(tt.snap.Requests, tt.req)
			x, ok := Account(tt.snap, tt.req.Key, false)
			reason := x.Reason
			if !ok {
				t.Fatal("not found")
			}
			if diff := cmp.Diff(tt.want, reason.Render(clock)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
