package scheduling

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// app selects what has the label app with this value, in the test's namespace.
func app(value string) Selector {
	return Selector{Namespaces: []string{"vision"}, Terms: []Expression{{Key: "app", Operator: "In", Values: []string{value}}}}
}

// lone builds a lone pod with a label app and rules.
func lone(name, value string, rules ...Peers) Request {
	return gang(name).role("pod", 1, 0).with(func(r *Request) {
		r.Pod = true
		r.Roles[0].Labels, r.Roles[0].Peers = map[string]string{"app": value}, rules
	}).obj()
}

// on is such a pod on a node.
func on(node, name, value string, rules ...Peers) Pod {
	return Pod{Key: Key{"vision", name}, UID: name, Node: node, Labels: map[string]string{"app": value}, Peers: rules}
}

func TestPeers(t *testing.T) {
	apart := Peers{Rule: PeersApart, Level: LevelNode, Required: true, Others: app("a"), Field: "spec.affinity.podAntiAffinity"}
	wish := apart
	wish.Required = false
	near := Peers{Rule: PeersNear, Level: LevelRack, Required: true, Others: app("a"), Field: "spec.affinity.podAffinity"}
	even := Peers{Rule: PeersEven, Level: LevelRack, Required: true, Skew: 1, Others: app("a"), Field: "spec.topologySpreadConstraints"}
	nodes := racks(2, 2, 0)
	all := func(value string, rules ...Peers) (out []Pod) {
		for _, n := range nodes {
			out = append(out, on(n.Name, "on-"+n.Name, value, rules...))
		}
		return out
	}
	tests := []struct {
		name string
		pods []Pod
		req  Request
		// want are the nodes that will do; none: it waits, saying why.
		want []string
		why  string
	}{
		{"apart from one that runs", []Pod{on("r00-n00", "p", "a")}, lone("new", "a", apart), []string{"r00-n01", "r01-n00", "r01-n01"}, ""},
		{"apart from all", all("a"), lone("new", "a", apart), nil, "there is room, but not where spec.affinity.podAntiAffinity of its pods"},
		{"apart from all is a wish", all("a"), lone("new", "a", wish), []string{"r00-n00", "r00-n01", "r01-n00", "r01-n01"}, ""},
		{"a wish that can be", all("a")[1:], lone("new", "a", wish), []string{"r00-n00"}, ""},
		{"apart from others", all("b"), lone("new", "a", apart), []string{"r00-n00", "r00-n01", "r01-n00", "r01-n01"}, ""},
		{"kept off by one that runs", all("b", apart)[1:], lone("new", "a"), []string{"r00-n00"}, ""},
		{"kept off by all", all("b", apart), lone("new", "a"), nil, "only beside pods whose podAntiAffinity keeps it away"},
		{"another namespace", func() []Pod {
			pods := all("a")
			for i := range pods {
				pods[i].Namespace = "nlp"
			}
			return pods
		}(), lone("new", "a", apart), []string{"r00-n00", "r00-n01", "r01-n00", "r01-n01"}, ""},
		{"near one that runs", []Pod{on("r01-n00", "p", "a")}, lone("new", "b", near), []string{"r01-n00", "r01-n01"}, ""},
		{"near nobody", nil, lone("new", "b", near), nil, "there is room, but not where spec.affinity.podAffinity"},
		{"the first of those who go together", nil, lone("new", "a", near), []string{"r00-n00", "r00-n01", "r01-n00", "r01-n01"}, ""},
		{"even", []Pod{on("r01-n00", "p", "a")}, lone("new", "a", even), []string{"r00-n00", "r00-n01"}, ""},
		{"even, and the other rack is not selected", []Pod{on("r01-n00", "p", "a")}, func() Request {
			r := lone("new", "a", even)
			r.Roles[0].NodeTerms = [][]Expression{{{Key: "metadata.name", Operator: "In", Values: []string{"r01-n00", "r01-n01"}, Field: true}}}
			return r
		}(), []string{"r01-n00", "r01-n01"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			result := Decide(Snapshot{Nodes: nodes, Pods: tt.pods, Requests: []Request{tt.req}})
			if tt.want == nil {
				if len(result.Waiting) != 1 || !strings.Contains(result.Waiting[0].Reason.Render(clock), tt.why) {
					t.Fatalf("got %+v, want a wait: %s", result, tt.why)
				}
				return
			}
			if len(result.Plans) != 1 {
				t.Fatalf("it waits: %s", result.Waiting[0].Reason.Render(clock))
			}
			if at := result.Plans[0].Members[0].Node; !strings.Contains(strings.Join(tt.want, " "), at) {
				t.Errorf("on %s, want one of %v", at, tt.want)
			}
		})
	}
}

// Members of a gang keep their rules among themselves; what is planned first
// counts for what is planned after it.
func TestPeersAmongMembers(t *testing.T) {
	apart := Peers{Rule: PeersApart, Level: LevelNode, Required: true, Others: app("a")}
	even := Peers{Rule: PeersEven, Level: LevelRack, Required: true, Skew: 1, Others: app("a")}
	labelled := func(b *requestBuilder, rules ...Peers) Request {
		return b.with(func(r *Request) {
			for i := range r.Roles {
				r.Roles[i].Labels = map[string]string{"app": "a"}
			}
			r.Roles[0].Peers = rules
		}).obj()
	}
	s := Snapshot{Nodes: racks(2, 2, 4)}
	s.Requests = []Request{labelled(gang("g").role("worker", 4, 1), apart)}
	p := Decide(s).Plans
	if len(p) != 1 || len(where(s, p[0], LevelNode, "")) != 4 {
		t.Fatalf("planned %+v", p)
	}
	s.Requests = append(s.Requests, labelled(gang("h").role("worker", 1, 1), apart))
	if p := Decide(s).Plans; len(p) != 1 {
		t.Fatalf("both are planned: %+v", p)
	}
	s.Requests = []Request{labelled(gang("g").role("worker", 1, 1).role("ps", 4, 0), apart)}
	if p := Decide(s).Plans; len(p) != 1 || where(s, p[0], LevelNode, "ps")[p[0].Members[0].Node] > 0 {
		t.Fatalf("planned %+v", p)
	}
	s.Requests = []Request{labelled(gang("g").role("worker", 6, 1), even)}
	if p := Decide(s).Plans; len(p) != 1 || fmt.Sprint(where(s, p[0], LevelRack, "")) != "map[z0/r00:3 z1/r01:3]" {
		t.Fatalf("planned %+v", p)
	}
	occupied(&s, "r00-n00", 4)
	occupied(&s, "r00-n01", 4)
	if p := Decide(s).Plans; len(p) != 0 {
		t.Fatalf("planned %+v", p)
	}
}

// Lone pods that come and go on random nodes never break a required rule, in
// either direction, and one that could go somewhere does.
func TestPeersAlways(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 9))
		s := Snapshot{Nodes: racks(1+rng.IntN(3), 1+rng.IntN(2), 0)}
		if rng.IntN(2) == 0 {
			s.Nodes[0].Domains = Domains{}
		}
		c := NewCore(Options{})
		for i := range 12 {
			var rules []Peers
			if rng.IntN(2) == 0 {
				rules = append(rules, Peers{
					Rule: []PeerRule{PeersApart, PeersEven, PeersApart}[rng.IntN(3)], Level: []Level{LevelNode, LevelRack}[rng.IntN(2)],
					Required: rng.IntN(3) > 0, Skew: 1, Others: app([]string{"a", "b"}[rng.IntN(2)]), Field: "spec",
				})
			}
			r := lone(fmt.Sprintf("p%02d", i), []string{"a", "b"}[rng.IntN(2)], rules...)
			s.Requests = []Request{r}
			result := c.Pass(s)
			var will []string
			for _, n := range s.Nodes {
				if lawfulOn(s, n, r) {
					will = append(will, n.Name)
				}
			}
			switch {
			case len(result.Plans) == 0 && len(will) > 0:
				t.Fatalf("seed %d: %s waits and may go to %v: %s", seed, r.Name, will, result.Waiting[0].Reason.Render(clock))
			case len(result.Plans) == 0:
				continue
			}
			at := result.Plans[0].Members[0].Node
			if !strings.Contains(strings.Join(will, " "), at) {
				t.Fatalf("seed %d: %s on %s, which its rules %+v and those of others do not allow", seed, r.Name, at, rules)
			}
			s.Pods = append(s.Pods, Pod{Key: r.Key, UID: r.UID, Node: at, Labels: r.Roles[0].Labels, Peers: rules, Resources: r.Roles[0].Resources})
			if rng.IntN(4) == 0 {
				s.Pods = s.Pods[1:]
			}
		}
	}
}

// lawfulOn is, by brute force, whether required rules allow a pod on a node.
func lawfulOn(s Snapshot, n Node, r Request) bool {
	same := func(node string, l Level) bool {
		for _, o := range s.Nodes {
			if o.Name == node {
				return domainName(n, l) != "" && domainName(o, l) == domainName(n, l)
			}
		}
		return false
	}
	labels := r.Roles[0].Labels
	for _, p := range s.Pods {
		for _, rule := range p.Peers {
			if rule.Required && rule.Rule == PeersApart && rule.Others.Matches("vision", labels) && same(p.Node, rule.Level) {
				return false
			}
		}
	}
	for _, rule := range r.Roles[0].Peers {
		if !rule.Required {
			continue
		}
		counts := map[string]int{}
		for _, o := range s.Nodes {
			if name := domainName(o, rule.Level); name != "" {
				counts[name] += 0
			}
		}
		for _, p := range s.Pods {
			for _, o := range s.Nodes {
				if o.Name == p.Node && domainName(o, rule.Level) != "" && rule.Others.Matches("vision", p.Labels) {
					counts[domainName(o, rule.Level)]++
				}
			}
		}
		name := domainName(n, rule.Level)
		if rule.Rule == PeersApart && name != "" && counts[name] > 0 {
			return false
		}
		if rule.Rule == PeersEven {
			least := 1 << 30
			for _, k := range counts {
				least = min(least, k)
			}
			self := 0
			if rule.Others.Matches("vision", labels) {
				self = 1
			}
			if name == "" || counts[name]+self-least > 1 {
				return false
			}
		}
	}
	return true
}
