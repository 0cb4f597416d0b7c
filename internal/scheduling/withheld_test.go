package scheduling

import (
	"strings"
	"testing"
)

// What keeps work from GPUs that are there is said, and what to do about it.
func TestWithheldGPUsAreNamed(t *testing.T) {
	counts := testNode("counts", "A100", 4)
	counting(&counts)
	unowned := testNode("theirs", "", 0)
	unowned.Unowned = []ModelCount{{Model: "H100", Count: 8}}
	cpu := testNode("cpu", "", 0)
	asleep := testNode("asleep", "A100", 2)
	asleep.NotReady = "Kubelet stopped posting node status."
	asleep.Taints = []Taint{{Key: "node.kubernetes.io/unreachable", Effect: "NoSchedule"}}
	for name, tt := range map[string]struct {
		request Request
		says    []string
		not     string
	}{
		"a model that only such a node has": {gang("a").role("w", 1, 1, "H100").obj(), []string{"no node has an H100", "8 H100 of node theirs", "`muster node add theirs`"}, ""},
		"more than there is":                {gang("a").role("w", 2, 4).obj(), []string{"the nodes have 4 GPUs in all", "`muster node add theirs`", "; without 2 A100 of node asleep, which is not ready: Kubelet stopped posting node status"}, ""},
		"another model":                     {gang("a").role("w", 1, 1, "V100").obj(), []string{"no node has a V100"}, "asleep"},
		"no GPU at all":                     {gang("a").role("w", 1, 0).with(func(r *Request) { r.Roles[0].Resources.MilliCPU = 1 << 40 }).obj(), []string{"impossible now"}, "theirs"},
		"a part of one": {gang("a").role("w", 1, 0).with(func(r *Request) { r.Roles[0].Share = Share{Milli: 500} }).obj(),
			[]string{"no node has a GPU of which a part can be given", "4 A100 of node counts", "ask for whole GPUs"}, "theirs"},
	} {
		t.Run(name, func(t *testing.T) {
			result := Decide(Snapshot{Nodes: []Node{counts, unowned, cpu, asleep}, Requests: []Request{tt.request}})
			if len(result.Waiting) != 1 {
				t.Fatalf("%+v", result)
			}
			text := result.Waiting[0].Reason.Render(clock)
			for _, part := range tt.says {
				if !strings.Contains(text, part) {
					t.Errorf("%q does not say %q", text, part)
				}
			}
			if tt.not != "" && strings.Contains(text, tt.not) {
				t.Errorf("%q names %s", text, tt.not)
			}
		})
	}
}

// Whoever holds GPUs of a node that counts them without names holds the last
// that are free, also beside names that the node does not have any more.
func TestLooseDevices(t *testing.T) {
	n := testNode("n", "A100", 4)
	counting(&n)
	mine := Placement{Gang: Key{"vision", "g"}, UID: "uid-g", Attempt: 1, Members: []PlacedMember{{Assignment: Assignment{Role: "w", Node: "n", GPUs: []string{"counted-3", "counted-7"}}}}}
	others := Pod{Key: Key{"other", "p"}, UID: "p", Node: "n", Loose: 1}
	for name, tt := range map[string]struct {
		wants int32
		fits  bool
	}{"what is left": {1, true}, "more than is left": {2, false}} {
		t.Run(name, func(t *testing.T) {
			s := Snapshot{Nodes: []Node{n}, Placements: []Placement{mine}, Pods: []Pod{others}, Requests: []Request{gang("new").role("w", 1, tt.wants).obj()}}
			result := Decide(s)
			if (len(result.Plans) == 1) != tt.fits {
				t.Fatalf("plans %+v, waiting %+v", result.Plans, result.Waiting)
			}
			if tt.fits && result.Plans[0].Members[0].GPUs[0] != "counted-0" {
				t.Errorf("was given %v", result.Plans[0].Members[0].GPUs)
			}
		})
	}
}

// Where GPUs are given by claims, a driver may give whole ones only, and several
// containers of one pod cannot ask.
func TestGPUsByClaims(t *testing.T) {
	whole := testNode("whole", "A100", 2)
	whole.Claims, whole.Whole = true, true
	parts := testNode("parts", "H100", 2)
	parts.Claims = true
	share := func(r *Request) { r.Roles[0].Share = Share{Milli: 250} }
	severally := func(r *Request) { r.Roles[0].NoClaims, r.Roles[0].Askers = true, "containers c, d" }
	for name, c := range map[string]struct {
		request Request
		node    string
		says    string
	}{
		"whole ones":                 {gang("a").role("w", 1, 1, "A100").obj(), "whole", ""},
		"a part":                     {gang("a").role("w", 1, 0).with(share).obj(), "parts", ""},
		"a part of what is whole":    {gang("a").role("w", 1, 0, "A100").with(share).obj(), "", "these nodes give whole GPUs only: 2 A100 of node whole"},
		"several containers ask":     {gang("a").role("w", 1, 1, "H100").with(severally).obj(), "", "containers c, d ask for GPUs, and one container of a pod may where GPUs are given by claims"},
		"members of one, on the one": {gang("a").role("w", 4, 0, "H100").with(share).obj(), "parts", ""},
	} {
		t.Run(name, func(t *testing.T) {
			result := Decide(Snapshot{Nodes: []Node{whole, parts}, Requests: []Request{c.request}})
			switch {
			case c.node != "" && (len(result.Plans) != 1 || result.Plans[0].Members[0].Node != c.node):
				t.Errorf("plans %+v, waiting %+v", result.Plans, result.Waiting)
			case c.node == "" && (len(result.Waiting) != 1 || !strings.Contains(result.Waiting[0].Reason.Render(clock), c.says)):
				t.Errorf("plans %+v, waiting %+v", result.Plans, result.Waiting)
			}
		})
	}
}
