package scheduling

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// racks builds so many racks of so many nodes each, with GPUs, in two zones.
func racks(racks, nodes, gpus int) []Node {
	var out []Node
	for r := range racks {
		for n := range nodes {
			node := testNode(fmt.Sprintf("r%02d-n%02d", r, n), "A100", gpus)
			node.Domains = Domains{Zone: fmt.Sprint("z", r*2/racks), Rack: fmt.Sprintf("r%02d", r)}
			out = append(out, node)
		}
	}
	return out
}

func (b *requestBuilder) within(l Level, required bool) *requestBuilder {
	b.r.Topology = Topology{Within: l, Required: required}
	return b
}

// spread spreads the role that was added last.
func (b *requestBuilder) spread(l Level, required bool) *requestBuilder {
	b.r.Roles[len(b.r.Roles)-1].Spread = Spread{Over: l, Required: required}
	return b
}

// occupied is what holds so many GPUs of a node.
func occupied(s *Snapshot, node string, gpus int) {
	for i := range s.Nodes {
		if s.Nodes[i].Name != node {
			continue
		}
		p := Pod{Key: Key{"other", "on-" + node}, UID: "on-" + node, Node: node}
		for _, d := range s.Nodes[i].Devices[:gpus] {
			p.GPUs = append(p.GPUs, d.UUID)
		}
		s.Pods = append(s.Pods, p)
	}
}

// where counts the members of a plan by domain of a level; "" is no domain.
func where(s Snapshot, p Plan, l Level, role string) map[string]int {
	out := map[string]int{}
	for _, m := range p.Members {
		if role != "" && m.Role != role {
			continue
		}
		for _, n := range s.Nodes {
			if n.Name == m.Node {
				out[domainName(n, l)]++
			}
		}
	}
	return out
}

// domainName is unique for each domain of a level; "" is none.
func domainName(n Node, l Level) string {
	d := n.Domains
	switch {
	case l == LevelNode:
		return n.Name
	case l == LevelZone && d.Zone != "":
		return d.Zone
	case l == LevelRack && d.Rack != "":
		return d.Zone + "/" + d.Rack
	case l == LevelNVLink && d.NVLink != "":
		return d.Zone + "/" + d.Rack + "/" + d.NVLink
	}
	return ""
}

func TestTopology(t *testing.T) {
	tests := []struct {
		name  string
		nodes []Node
		held  map[string]int
		gang  *requestBuilder
		// planned is how many members go where, by level; nil: it waits.
		planned map[Level]map[string]int
	}{
		{
			name: "within a rack: the one that is left with the least", nodes: racks(3, 2, 8), held: map[string]int{"r01-n00": 4},
			gang:    gang("a").role("worker", 3, 4).within(LevelRack, true),
			planned: map[Level]map[string]int{LevelRack: {"z0/r01": 3}},
		},
		{
			name: "no rack has room, and one is required", nodes: racks(2, 2, 4),
			gang: gang("a").role("worker", 3, 4).within(LevelRack, true),
		},
		{
			name: "no rack has room, and a zone will do", nodes: racks(4, 2, 4), held: map[string]int{"r00-n00": 1},
			gang:    gang("a").role("worker", 3, 4).within(LevelRack, false),
			planned: map[Level]map[string]int{LevelZone: {"z0": 3}},
		},
		{
			name: "no zone has room, and anywhere will do", nodes: racks(2, 2, 4),
			gang:    gang("a").role("worker", 3, 4).within(LevelRack, false),
			planned: map[Level]map[string]int{LevelNode: {"r00-n00": 1, "r00-n01": 1, "r01-n00": 1}},
		},
		{
			name: "a node that says nothing is in no rack", nodes: []Node{testNode("n", "A100", 8)},
			gang: gang("a").role("worker", 2, 4).within(LevelRack, true),
		},
		{
			name: "racks of the same name in two zones are two", nodes: func() []Node {
				n := racks(2, 1, 4)
				n[0].Domains, n[1].Domains = Domains{Zone: "a", Rack: "r"}, Domains{Zone: "b", Rack: "r"}
				return n
			}(),
			gang: gang("a").role("worker", 2, 4).within(LevelRack, true),
		},
		{
			name: "one node", nodes: racks(2, 2, 8), held: map[string]int{"r01-n00": 2},
			gang:    gang("a").role("worker", 3, 2).within(LevelNode, true),
			planned: map[Level]map[string]int{LevelNode: {"r01-n00": 3}},
		},
		{
			name: "roles with and without GPUs in one rack", nodes: racks(2, 2, 4), held: map[string]int{"r00-n00": 4},
			gang:    gang("a").role("ps", 2, 0).role("worker", 2, 4).within(LevelRack, true),
			planned: map[Level]map[string]int{LevelRack: {"z1/r01": 4}},
		},
		{
			name: "what wants no GPU goes to a rack without", nodes: append(racks(1, 1, 4), func() Node {
				n := testNode("bare", "", 0)
				n.Domains = Domains{Zone: "z0", Rack: "zz"}
				return n
			}()),
			gang:    gang("a").role("worker", 2, 0).within(LevelRack, true),
			planned: map[Level]map[string]int{LevelRack: {"z0/zz": 2}},
		},
		{
			name: "the model that is wanted most, though another rack is fuller", nodes: func() []Node {
				n := racks(2, 2, 4)
				for i := range n[0].Devices {
					n[0].Devices[i].Model, n[1].Devices[i].Model = "V100", "V100"
				}
				return n
			}(), held: map[string]int{"r00-n00": 2},
			gang:    gang("a").role("worker", 2, 2, "A100", "V100").within(LevelRack, true),
			planned: map[Level]map[string]int{LevelRack: {"z1/r01": 2}},
		},
		{
			name: "spread over nodes, and it must be", nodes: racks(1, 3, 8),
			gang:    gang("a").role("worker", 3, 1).spread(LevelNode, true),
			planned: map[Level]map[string]int{LevelNode: {"r00-n00": 1, "r00-n01": 1, "r00-n02": 1}},
		},
		{
			name: "spread over more nodes than there are", nodes: racks(1, 2, 8),
			gang: gang("a").role("worker", 3, 1).spread(LevelNode, true),
		},
		{
			name: "spread over racks as far as there is room", nodes: racks(2, 2, 8),
			gang:    gang("a").role("worker", 5, 1).spread(LevelRack, false),
			planned: map[Level]map[string]int{LevelRack: {"z0/r00": 3, "z1/r01": 2}},
		},
		{
			name: "spread over racks, within a zone", nodes: racks(4, 1, 8), held: map[string]int{"r00-n00": 1},
			gang:    gang("a").role("worker", 2, 2).spread(LevelRack, true).within(LevelZone, true),
			planned: map[Level]map[string]int{LevelRack: {"z0/r00": 1, "z0/r01": 1}},
		},
		{
			name: "spreading leaves no room for the other role, and it need not be", nodes: racks(1, 2, 8),
			gang:    gang("a").role("big", 1, 8).role("small", 2, 4).spread(LevelNode, false),
			planned: map[Level]map[string]int{LevelNode: {"r00-n00": 1, "r00-n01": 2}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Snapshot{Nodes: tt.nodes, Requests: []Request{tt.gang.obj()}}
			for _, name := range sortedKeys(tt.held) {
				occupied(&s, name, tt.held[name])
			}
			result := Decide(s)
			if tt.planned == nil {
				if len(result.Plans) != 0 {
					t.Fatalf("it was planned: %+v", result.Plans)
				}
				return
			}
			if len(result.Plans) != 1 {
				t.Fatalf("it was not planned: %s", result.Waiting[0].Reason.Render(clock))
			}
			for l, want := range tt.planned {
				got := where(s, result.Plans[0], l, "")
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("by %s: %v, want %v", l, got, want)
				}
			}
		})
	}
}

// A random small cluster with a topology, of which some nodes say nothing.
func randomTopology(rng *rand.Rand) Snapshot {
	var s Snapshot
	for i := range 2 + rng.IntN(7) {
		n := testNode(fmt.Sprintf("n%d", i), []string{"A100", "V100"}[rng.IntN(2)], rng.IntN(5))
		n.Allocatable.MilliCPU = int64(1000 * (1 + rng.IntN(6)))
		name := func(of string, k int) string {
			if v := rng.IntN(k + 1); v < k {
				return fmt.Sprint(of, v)
			}
			return ""
		}
		n.Domains = Domains{Zone: name("z", 2), Rack: name("r", 2), NVLink: name("l", 2)}
		s.Nodes = append(s.Nodes, n)
		if k := rng.IntN(len(n.Devices) + 1); rng.IntN(2) == 0 && k > 0 {
			occupied(&s, n.Name, k)
		}
	}
	return s
}

func randomLevel(rng *rand.Rand) Level {
	return []Level{LevelZone, LevelRack, LevelNVLink, LevelNode}[rng.IntN(4)]
}

// fitsIn is, by brute force, whether n members alike fit on nodes that will do.
func fitsIn(s Snapshot, r Role, n int, will func(Node) bool) bool {
	return capacity(s, r, will) >= n
}

// capacity is how many members fit on nodes that will do, node by node.
func capacity(s Snapshot, r Role, will func(Node) bool) int {
	sum := 0
	for _, n := range s.Nodes {
		if will(n) {
			sum += room1(s, n, r)
		}
	}
	return sum
}

// room1 is how many members fit on one node.
func room1(s Snapshot, n Node, r Role) int {
	held := map[string]bool{}
	for _, p := range s.Pods {
		for _, g := range p.GPUs {
			held[g] = true
		}
	}
	k := int(n.Allocatable.MilliCPU / r.Resources.MilliCPU)
	if r.GPUs == 0 {
		return k
	}
	free := map[string]int{}
	for _, d := range n.Devices {
		if !held[d.UUID] && r.accepts(d) {
			free[d.Model]++
		}
	}
	groups := 0
	for _, f := range free {
		groups += f / int(r.GPUs)
	}
	return min(k, groups)
}

// Required levels are never violated; with a preferred one, the members are in
// one domain if any has room, and of the narrowest level of which one has. A
// gang of one role that has room starts.
func TestTogetherIsAsGoodAsCanBe(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 7))
		s := randomTopology(rng)
		b := gang("a").role("worker", int32(1+rng.IntN(5)), int32(rng.IntN(3)))
		b.r.Roles[0].Resources.MilliCPU = 1000
		if rng.IntN(3) == 0 {
			b.r.Roles[0].Models = []string{"V100", "A100"}[:1+rng.IntN(2)]
		}
		b.within(randomLevel(rng), rng.IntN(2) == 0)
		req := b.obj()
		s.Requests = []Request{req}
		n, role := int(req.Roles[0].Replicas), req.Roles[0]
		// 1. The narrowest level that will do, by brute force.
		tried := req.Topology.Within.wider()
		if req.Topology.Required {
			tried = tried[:1]
		}
		best, some := Level(""), false
		for _, l := range tried {
			var names []string
			for _, node := range s.Nodes {
				if name := domainName(node, l); name != "" {
					names = append(names, name)
				}
			}
			one := l == "" && fitsIn(s, role, n, func(Node) bool { return true })
			for _, name := range names {
				one = one || fitsIn(s, role, n, func(o Node) bool { return domainName(o, l) == name })
			}
			if one {
				best, some = l, true
				break
			}
		}
		// 2. The plan is as good.
		result := Decide(s)
		if (len(result.Plans) == 1) != some {
			t.Fatalf("seed %d: planned is %v, and there is room is %v: %+v", seed, len(result.Plans) == 1, some, req)
		}
		if !some || best == "" {
			continue
		}
		got := where(s, result.Plans[0], best, "")
		if len(got) != 1 || got[""] > 0 {
			t.Fatalf("seed %d: not in one %s: %v", seed, best, got)
		}
	}
}

// What must be spread never has two members in one domain, and starts if that
// can be; what is spread as far as there is room is in as many domains as can
// be.
func TestApartIsAsGoodAsCanBe(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 8))
		s := randomTopology(rng)
		b := gang("a").role("worker", int32(1+rng.IntN(5)), int32(rng.IntN(3)))
		b.r.Roles[0].Resources.MilliCPU = 1000
		b.spread(randomLevel(rng), rng.IntN(2) == 0)
		req := b.obj()
		s.Requests = []Request{req}
		n, role, spread := int(req.Roles[0].Replicas), req.Roles[0], req.Roles[0].Spread
		var names []string
		for _, node := range s.Nodes {
			name := domainName(node, spread.Over)
			if name != "" && !slices.Contains(names, name) && fitsIn(s, role, 1, func(o Node) bool { return o.Name == node.Name }) {
				names = append(names, name)
			}
		}
		some := fitsIn(s, role, n, func(Node) bool { return true })
		if spread.Required {
			some = len(names) >= n
		}
		result := Decide(s)
		if (len(result.Plans) == 1) != some {
			t.Fatalf("seed %d: planned is %v, and there is room is %v: %+v", seed, len(result.Plans) == 1, some, req)
		}
		if !some {
			continue
		}
		got := where(s, result.Plans[0], spread.Over, "")
		delete(got, "")
		if len(got) != min(n, len(names)) {
			t.Fatalf("seed %d: on %v of %v", seed, got, names)
		}
	}
}

// somewhere puts nodes and requests at random into a topology. It draws from a
// source of its own, so that all else stays as it was.
func somewhere(seed uint64, nodes []Node, requests []Request) {
	rng := rand.New(rand.NewPCG(seed, 50))
	if rng.IntN(3) == 0 {
		return
	}
	for i := range nodes {
		nodes[i].Domains = Domains{Zone: "z", Rack: []string{"r0", "r1", ""}[rng.IntN(3)]}
	}
	for i := range requests {
		anyhow(rng, &requests[i])
	}
}

// anyhow asks at random to be together or apart.
func anyhow(rng *rand.Rand, r *Request) {
	if rng.IntN(3) == 0 {
		r.Topology = Topology{Within: randomLevel(rng), Required: rng.IntN(3) > 0}
	}
	for i := range r.Roles {
		if rng.IntN(4) == 0 {
			r.Roles[i].Spread = Spread{Over: randomLevel(rng), Required: rng.IntN(2) == 0}
		}
	}
}

// astray says where a plan is not where its request has to be; empty: nowhere.
func astray(nodes []Node, r Request, p Plan) string {
	s := Snapshot{Nodes: nodes}
	live := p
	live.Members = nil
	for _, m := range p.Members {
		at := slices.IndexFunc(r.Roles, func(r Role) bool { return r.Name == m.Role })
		if !r.Roles[at].done(m.Index) {
			live.Members = append(live.Members, m)
		}
	}
	if t := r.Topology; t.Required && t.Within != "" {
		if got := where(s, live, t.Within, ""); len(got) > 1 || got[""] > 0 {
			return fmt.Sprintf("within one %s: %v", t.Within, got)
		}
	}
	for _, role := range r.Roles {
		if !role.Spread.Required || role.Spread.Over == "" {
			continue
		}
		for domain, n := range where(s, live, role.Spread.Over, role.Name) {
			if n > 1 || domain == "" {
				return fmt.Sprintf("%d of %s in %s %q", n, role.Name, role.Spread.Over, domain)
			}
		}
	}
	return ""
}
