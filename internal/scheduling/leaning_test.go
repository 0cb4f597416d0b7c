package scheduling

import (
	"fmt"
	"testing"
)

// What is liked better is taken wherever there is room, and only there.
func TestLeaning(t *testing.T) {
	label := func(n Node, key, value string) Node {
		n.Labels = map[string]string{key: value}
		return n
	}
	taint := func(n Node) Node {
		n.Taints = []Taint{{Key: "old", Effect: "PreferNoSchedule"}}
		return n
	}
	likes := func(weight int32, key, value string) func(*Request) {
		return func(r *Request) {
			r.Roles[0].Prefers = append(r.Roles[0].Prefers, Preference{weight, []Expression{{Key: key, Operator: "In", Values: []string{value}}}})
		}
	}
	a, b := testNode("a", "A100", 4), testNode("b", "A100", 4)
	tests := []struct {
		name  string
		nodes []Node
		gang  *requestBuilder
		want  map[string]int
	}{
		{"a preferred node", []Node{a, label(b, "disk", "ssd")}, gang("g").role("worker", 3, 1).with(likes(1, "disk", "ssd")), map[string]int{"b": 3}},
		{"as far as there is room", []Node{a, label(b, "disk", "ssd")}, gang("g").role("worker", 6, 1).with(likes(1, "disk", "ssd")), map[string]int{"a": 2, "b": 4}},
		{"the heavier of two", []Node{label(a, "disk", "hdd"), label(b, "disk", "ssd")},
			gang("g").role("worker", 2, 1).with(likes(50, "disk", "ssd")).with(likes(90, "disk", "hdd")), map[string]int{"a": 2}},
		{"a preferred node with GPUs, for what wants none", []Node{label(a, "disk", "ssd"), testNode("bare", "", 0)},
			gang("g").role("worker", 1, 0).with(likes(1, "disk", "ssd")), map[string]int{"a": 1}},
		{"a taint that is soft", []Node{taint(a), b}, gang("g").role("worker", 4, 1), map[string]int{"b": 4}},
		{"a soft taint and no room elsewhere", []Node{taint(a), b}, gang("g").role("worker", 5, 1), map[string]int{"a": 1, "b": 4}},
		{"a soft taint that is tolerated, on the better node", []Node{taint(label(a, "disk", "ssd")), b}, gang("g").role("worker", 2, 1).with(func(r *Request) {
			likes(1, "disk", "ssd")(r)
			r.Roles[0].Tolerations = []Toleration{{Key: "old", Exists: true}}
		}), map[string]int{"a": 2}},
		{"the wanted model goes before the liked node", []Node{testNode("v", "V100", 4), label(a, "disk", "ssd")},
			gang("g").role("worker", 2, 1, "V100", "A100").with(likes(100, "disk", "ssd")), map[string]int{"v": 2}},
		{"roles with and without GPUs, on nodes with and without", []Node{a, b, testNode("bare", "", 0)},
			gang("g").role("ps", 2, 0).role("worker", 8, 1), map[string]int{"a": 4, "b": 4, "bare": 2}},
		{"without GPUs beside GPUs, where there is no other room", []Node{a, func() Node {
			n := testNode("bare", "", 0)
			n.Allocatable.MilliCPU = 100
			return n
		}()}, gang("g").role("ps", 2, 0).role("worker", 4, 1), map[string]int{"a": 5, "bare": 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Snapshot{Nodes: tt.nodes, Requests: []Request{tt.gang.obj()}}
			result := Decide(s)
			if len(result.Plans) != 1 {
				t.Fatalf("not planned: %+v", result)
			}
			if got := where(s, result.Plans[0], LevelNode, ""); fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// Soft taints that come and go while a gang waits are seen.
func TestSoftTaintsComeAndGo(t *testing.T) {
	c := NewCore(Options{})
	a, b := testNode("a", "A100", 4), testNode("b", "A100", 4)
	c.SetNode(a)
	c.SetNode(b)
	c.SetRequest(gang("g").role("worker", 1, 1).obj())
	a.Taints = []Taint{{Key: "old", Effect: "PreferNoSchedule"}}
	c.SetNode(a)
	if p := c.Decide(1).Plans; len(p) != 1 || p[0].Members[0].Node != "b" {
		t.Fatalf("planned %+v", p)
	}
	c.Drop("uid-g")
	c.SetRequest(gang("g").role("worker", 1, 1).obj())
	a.Taints = nil
	c.SetNode(a)
	if p := c.Decide(2).Plans; len(p) != 1 || p[0].Members[0].Node != "a" {
		t.Fatalf("planned %+v", p)
	}
}
