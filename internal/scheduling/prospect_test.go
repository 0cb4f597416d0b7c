package scheduling

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
)

// Who starts before long, and where: nodes with 2 GPUs each, all of them held by one
// gang each, which says for how long.
func TestProspects(t *testing.T) {
	const unsaid = 0
	waits := func(name string, edits ...func(*Request)) Request {
		b := gang(name).role("worker", 1, 2)
		for _, edit := range edits {
			b.with(edit)
		}
		return b.obj()
	}
	two := func(r *Request) { r.Roles[0].Replicas = 2 }
	in := func(queue string) func(*Request) { return func(r *Request) { r.Queue = queue } }
	for name, c := range map[string]struct {
		// runs is what those that hold n0, n1, ... say of how long they run.
		runs  []estimate.Span
		waits []Request
		// plain are those that nobody asks for.
		plain []string
		// before are the nodes that were named before.
		before []string
		want   []Prospect
	}{
		"next, and nobody knows when": {
			runs: []estimate.Span{unsaid}, waits: []Request{waits("a")}, want: []Prospect{{"a", []string{"n0"}}},
		},
		"soon": {
			runs: []estimate.Span{10 * estimate.Minute}, waits: []Request{waits("a")}, want: []Prospect{{"a", []string{"n0"}}},
		},
		"not soon": {
			runs: []estimate.Span{20 * estimate.Hour}, waits: []Request{waits("a")},
		},
		"where room is first": {
			runs: []estimate.Span{20 * estimate.Hour, 10 * estimate.Minute, 20 * estimate.Hour}, waits: []Request{waits("a")},
			want: []Prospect{{"a", []string{"n1"}}},
		},
		"two nodes": {
			runs: []estimate.Span{10 * estimate.Minute, 20 * estimate.Hour, 10 * estimate.Minute}, waits: []Request{waits("a", two)},
			want: []Prospect{{"a", []string{"n0", "n2"}}},
		},
		"not its turn": {
			runs: []estimate.Span{unsaid}, waits: []Request{waits("a"), waits("b")}, plain: []string{"a"},
		},
		"each queue has a first": {
			runs: []estimate.Span{10 * estimate.Minute, 10 * estimate.Minute}, waits: []Request{waits("a", in("x")), waits("b", in("y"))},
			want: []Prospect{{"a", []string{"n0", "n1"}}, {"b", []string{"n0", "n1"}}},
		},
		"no node is large enough": {
			runs: []estimate.Span{10 * estimate.Minute}, waits: []Request{waits("a", func(r *Request) { r.Roles[0].GPUs = 8 })},
		},
		"suspended": {
			runs: []estimate.Span{10 * estimate.Minute}, waits: []Request{waits("a", func(r *Request) { r.Suspended = true })},
		},
		"a pod by itself": {
			runs: []estimate.Span{10 * estimate.Minute}, waits: []Request{waits("a", func(r *Request) { r.Pod = true })},
		},
		"those that were named before stay": {
			runs:  []estimate.Span{10 * estimate.Minute, 10 * estimate.Minute, 10 * estimate.Minute, 10 * estimate.Minute, 10 * estimate.Minute},
			waits: []Request{waits("a")}, before: []string{"n3", "n4"}, want: []Prospect{{"a", []string{"n3", "n4"}}},
		},
		"what cannot be any more goes": {
			runs: []estimate.Span{10 * estimate.Minute, 20 * estimate.Hour}, waits: []Request{waits("a")}, before: []string{"n1", "gone"},
			want: []Prospect{{"a", []string{"n0"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := Snapshot{Now: Instant(estimate.Minute)}
			wanted := map[string][]string{}
			for i, run := range c.runs {
				node := fmt.Sprintf("n%d", i)
				s.Nodes = append(s.Nodes, testNode(node, "A100", 2))
				r := gang("runs-"+node).role("worker", 1, 2).with(func(r *Request) { r.Evidence.Declared = run }).obj()
				s.Requests = append(s.Requests, r)
				s.Placements = append(s.Placements, Placement{Gang: r.Key, UID: r.UID, Attempt: 1, Created: s.Now, Members: []PlacedMember{{
					Assignment: Assignment{Role: "worker", Node: node, GPUs: []string{node + "-0", node + "-1"}}, Resources: r.Roles[0].Resources,
				}}})
			}
			for i, r := range c.waits {
				r.UID, r.Created = r.Name, s.Now+Instant(i)
				s.Requests = append(s.Requests, r)
				if !slices.Contains(c.plain, r.Name) {
					wanted[r.UID] = c.before
				}
			}
			core := NewCore(Options{})
			core.Pass(s)
			before := core.Standing().Tree
			got := core.Prospects(wanted, s.Now)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if again := core.Prospects(wanted, s.Now); !cmp.Equal(got, again) || core.Standing().Tree != before {
				t.Errorf("asked again: %v, then %v", got, again)
			}
		})
	}
}

// For whom others make room is told of those nodes, whatever is likely.
func TestProspectsWhereRoomIsMade(t *testing.T) {
	s := Snapshot{Now: Instant(estimate.Hour), Nodes: []Node{testNode("n0", "A100", 2), testNode("n1", "A100", 2)}}
	for _, node := range []string{"n0", "n1"} {
		r := gang("runs-"+node).role("worker", 1, 2).with(func(r *Request) { r.Evidence.Declared = 20 * estimate.Hour }).obj()
		s.Requests = append(s.Requests, r)
		s.Placements = append(s.Placements, Placement{Gang: r.Key, UID: r.UID, Attempt: 1, Created: 1, Members: []PlacedMember{{
			Assignment: Assignment{Role: "worker", Node: node, GPUs: []string{node + "-0", node + "-1"}}, Resources: r.Roles[0].Resources,
		}}})
	}
	s.Requests = append(s.Requests, gang("urgent").role("worker", 1, 2).with(func(r *Request) { r.Priority = 10 }).obj())
	core := NewCore(Options{})
	result := core.Pass(s)
	if len(result.Evictions) != 1 {
		t.Fatalf("evictions: %+v", result.Evictions)
	}
	want := []Prospect{{"uid-urgent", []string{strings.TrimPrefix(result.Evictions[0].Name, "runs-")}}}
	if diff := cmp.Diff(want, core.Prospects(map[string][]string{"uid-urgent": nil}, s.Now)); diff != "" {
		t.Error(diff)
	}
}

// However much waits and runs, the core is as it was, nothing is named that is not
// there, and the answer is the same again.
func TestProspectsLeaveAllAsItIs(t *testing.T) {
	named := 0
	for seed := range uint64(150) {
		s := busyWorld(seed)
		c := decided(s)
		before := standingOf(c)
		wanted := map[string][]string{}
		for _, e := range c.waiting {
			wanted[e.req.UID] = nil
		}
		got := c.Prospects(wanted, s.Now)
		if diff := cmp.Diff(before, standingOf(c)); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
		if again := c.Prospects(wanted, s.Now); !cmp.Equal(got, again) {
			t.Fatalf("seed %d: %v, then %v", seed, got, again)
		}
		for _, p := range got {
			for _, node := range p.Nodes {
				if !slices.ContainsFunc(s.Nodes, func(n Node) bool { return n.Name == node }) || c.entries[p.UID].placed {
					t.Errorf("seed %d: %+v", seed, p)
				}
			}
		}
		named += len(got)
	}
	if named == 0 {
		t.Error("nobody has any")
	}
}
