package placement

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// with is a cluster of the nodes.
func with(t *testing.T, nodes ...NodeSpec) *Cluster {
	t.Helper()
	c := New(Options{})
	for _, n := range nodes {
		if _, err := c.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// gpus are so many devices alike.
func gpus(n int, model string, mib int64) []DeviceSpec {
	var d []DeviceSpec
	for i := range n {
		d = append(d, DeviceSpec{UUID: fmt.Sprintf("%s-%d", model, i), Model: model, MemoryMiB: mib})
	}
	return d
}

// class is the class of an ask that is known to be valid.
func (c *Cluster) class(t *testing.T, a Ask) Class {
	t.Helper()
	k, err := c.Class(a)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// goes places one member and says where: "node:device,device".
func (c *Cluster) goes(t *testing.T, a Ask) string {
	t.Helper()
	s, ok := c.Place(c.class(t, a), Scope{})
	if !ok {
		return "nowhere"
	}
	return c.Name(s.Node) + ":" + strings.Join(c.SeatDevices(s, nil), ",")
}

func TestWhere(t *testing.T) {
	linked := gpus(4, "A", 0)
	for i, l := range []string{"x", "y", "y", "x"} {
		linked[i].Link = l
	}
	cpu := func(name string, milli int64) NodeSpec { return NodeSpec{Name: name, MilliCPU: milli} }
	gpu := func(name, model string, n int) NodeSpec {
		return NodeSpec{Name: name, MilliCPU: 64000, MemoryBytes: 1 << 40, Devices: gpus(n, model, 40000)}
	}
	tests := []struct {
		name  string
		nodes []NodeSpec
		asks  []Ask
		want  []string
	}{
		{"work without GPUs keeps off nodes with GPUs", []NodeSpec{gpu("a", "A", 1), cpu("b", 9000)},
			[]Ask{{MilliCPU: 5000}, {MilliCPU: 5000}}, []string{"b:", "a:"}},
		{"of nodes without GPUs the tightest", []NodeSpec{cpu("a", 9000), cpu("b", 6000)}, []Ask{{MilliCPU: 5000}}, []string{"b:"}},
		{"the preferred model first, then the next", []NodeSpec{gpu("a", "A", 1), gpu("b", "B", 1)},
			[]Ask{{GPUs: 1, Models: []string{"B", "A"}, InOrder: true}, {GPUs: 1, Models: []string{"B", "A"}, InOrder: true}, {GPUs: 1}},
			[]string{"b:B-0", "a:A-0", "nowhere"}},
		{"a share prefers the model too", []NodeSpec{gpu("a", "A", 1), gpu("b", "B", 1)},
			[]Ask{{ShareMilli: 500, Models: []string{"B", "A"}, InOrder: true}}, []string{"b:B-0"}},
		{"a model that is not there", []NodeSpec{gpu("a", "A", 1)}, []Ask{{GPUs: 1, Models: []string{"Z"}}}, []string{"nowhere"}},
		{"linked devices stay together", []NodeSpec{{Name: "a", Devices: linked}}, []Ask{{GPUs: 2}, {GPUs: 2}}, []string{"a:A-0,A-3", "a:A-1,A-2"}},
		{"shares fill a device first", []NodeSpec{gpu("a", "A", 2)},
			[]Ask{{ShareMilli: 500}, {ShareMilli: 500}, {GPUs: 1}}, []string{"a:A-0", "a:A-0", "a:A-1"}},
		{"a share by memory takes the same part of the device", []NodeSpec{gpu("a", "A", 1)},
			[]Ask{{ShareMiB: 30000}, {ShareMilli: 251}, {ShareMilli: 250}}, []string{"a:A-0", "nowhere", "a:A-0"}},
		{"memory and milli both bind", []NodeSpec{gpu("a", "A", 1)},
			[]Ask{{ShareMilli: 100, ShareMiB: 39000}, {ShareMilli: 100}, {ShareMilli: 20}}, []string{"a:A-0", "nowhere", "a:A-0"}},
		{"a whole GPU has its memory to itself", []NodeSpec{gpu("a", "A", 1)}, []Ask{{GPUs: 1}, {ShareMiB: 1}}, []string{"a:A-0", "nowhere"}},
		{"unknown memory serves no ask that names it", []NodeSpec{{Name: "a", Devices: gpus(1, "A", 0)}},
			[]Ask{{ShareMiB: 1}, {ShareMilli: 1}}, []string{"nowhere", "a:A-0"}},
		{"more memory than any device", []NodeSpec{gpu("a", "A", 4)}, []Ask{{ShareMiB: 40001}}, []string{"nowhere"}},
		{"GPUs of one member are of one model", []NodeSpec{{Name: "a", Devices: append(gpus(1, "A", 0), gpus(1, "B", 0)...)}},
			[]Ask{{GPUs: 2}}, []string{"nowhere"}},
		{"ties go to the first name", []NodeSpec{gpu("b", "A", 8), gpu("a", "A", 8)}, []Ask{{GPUs: 8}}, []string{"a:A-0,A-1,A-2,A-3,A-4,A-5,A-6,A-7"}},
		{"spread", []NodeSpec{gpu("a", "A", 2), gpu("b", "A", 2)},
			[]Ask{{GPUs: 1, Policy: Spread}, {GPUs: 1, Policy: Spread}, {ShareMilli: 1, Policy: Spread}}, []string{"a:A-0", "b:A-0", "a:A-1"}},
		{"whole machines are spared", []NodeSpec{gpu("a", "A", 8), gpu("b", "A", 2)}, []Ask{{MilliCPU: 4000, GPUs: 2}}, []string{"b:A-0,A-1"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := with(t, test.nodes...)
			var got []string
			for _, a := range test.asks {
				got = append(got, c.goes(t, a))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestTake(t *testing.T) {
	c := with(t, NodeSpec{Name: "a", MilliCPU: 1000, Devices: gpus(2, "A", 10000)})
	id, _ := c.Node("a")
	half := c.class(t, Ask{MilliCPU: 800, ShareMilli: 600})
	if _, err := c.Take(half, id, "A-1"); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		class   Class
		devices []string
		want    string
	}{
		{"no device beyond what it has", half, []string{"A-1"}, "has 400 milli"},
		{"an unknown device", half, []string{"Z"}, "no device Z"},
		{"too few named", half, nil, "0 devices are named, and the ask takes 1"},
		{"one named twice", c.class(t, Ask{GPUs: 2}), []string{"A-0", "A-0"}, "named twice"},
	} {
		if _, err := c.Take(test.class, id, test.devices...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want an error with %q", test.name, err, test.want)
		}
	}
	if _, err := c.Take(half, id, "A-0"); err != nil {
		t.Errorf("what is held is held, whatever the CPU: %v", err)
	}
	if f := c.Free(id); f.MilliCPU != -600 || f.Devices[0].Milli != 400 {
		t.Errorf("free is %+v", f)
	}
	if c.Fits(c.class(t, Ask{}), id) == 0 || c.Fits(c.class(t, Ask{MilliCPU: 1}), id) != 0 {
		t.Error("a node with less than nothing takes only what wants none of it")
	}
}

func TestNodesComeAndGo(t *testing.T) {
	c := with(t, NodeSpec{Name: "a", MilliCPU: 8000, Devices: gpus(2, "A", 100)})
	id, _ := c.Node("a")
	k := c.class(t, Ask{MilliCPU: 1000, GPUs: 1})
	s, ok := c.Place(k, Scope{})
	if !ok {
		t.Fatal("nothing was placed")
	}
	// The held device vanishes: nothing new on it, and its seat is released.
	if _, err := c.SetNode(NodeSpec{Name: "a", MilliCPU: 8000, Devices: gpus(2, "A", 100)[1:]}); err != nil {
		t.Fatal(err)
	}
	if got := c.Fits(k, id); got != 1 {
		t.Errorf("%d fit beside a device that is gone, want 1", got)
	}
	c.Release(s)
	if f := c.Free(id); len(f.Devices) != 1 || f.MilliCPU != 8000 {
		t.Errorf("free is %+v", f)
	}
	s, _ = c.Place(k, Scope{})
	if !c.RemoveNode("a") || c.RemoveNode("a") {
		t.Error("a node is removed once")
	}
	if _, ok := c.Place(k, Scope{}); ok {
		t.Error("something was placed on a node that is gone")
	}
	c.Release(s)
	if c.Totals() != (Totals{}) {
		t.Errorf("totals of no node are %+v", c.Totals())
	}
	if len(c.byName) != 0 {
		t.Error("the row of a node that is gone and free was kept")
	}
}

func TestInvalid(t *testing.T) {
	c := New(Options{})
	for _, test := range []struct {
		name string
		ask  Ask
		want string
	}{
		{"negative CPU", Ask{MilliCPU: -1}, "milliCPU is -1"},
		{"overflowing memory", Ask{MemoryBytes: math.MaxInt64}, "memoryBytes is 9223372036854775807"},
		{"negative GPUs", Ask{GPUs: -1}, "gpus is -1"},
		{"more GPUs than a node may have", Ask{GPUs: 65}, "from 0 to 64"},
		{"a share of a whole", Ask{ShareMilli: 1000}, "1000 is gpus: 1"},
		{"whole and share", Ask{GPUs: 1, ShareMiB: 5}, "one or the other"},
		{"a resource twice", Ask{Other: []Amount{{"x", 1}, {"x", 2}}}, "given twice"},
		{"an unknown rule", Ask{Rule: "r"}, `rule "r" is not defined`},
		{"an unknown policy", Ask{Policy: 9}, "policy 9"},
	} {
		if _, err := c.Class(test.ask); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want an error with %q", test.name, err, test.want)
		}
	}
	for _, test := range []struct {
		name string
		node NodeSpec
		want string
	}{
		{"no name", NodeSpec{}, "no name"},
		{"negative", NodeSpec{Name: "a", Pods: -3}, "pods is -3"},
		{"too many devices", NodeSpec{Name: "a", Devices: gpus(65, "A", 0)}, "at most 64"},
		{"a device twice", NodeSpec{Name: "a", Devices: append(gpus(1, "A", 0), gpus(1, "A", 0)...)}, "listed twice"},
	} {
		if _, err := c.SetNode(test.node); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want an error with %q", test.name, err, test.want)
		}
	}
	if err := c.SetWorkload([]Weight{{Ask{}, -1}}); err == nil {
		t.Error("a negative share was accepted")
	}
}

func TestShortfall(t *testing.T) {
	c := with(t, NodeSpec{Name: "a", MilliCPU: 8000, Devices: gpus(2, "A", 100)})
	id, _ := c.Node("a")
	if err := c.SetRule("never", func(string, any) bool { return false }); err != nil {
		t.Fatal(err)
	}
	c.goes(t, Ask{MilliCPU: 4000, GPUs: 1})
	for _, test := range []struct {
		ask  Ask
		want Shortfall
	}{
		{Ask{MilliCPU: 4000, GPUs: 1}, Shortfall{}},
		{Ask{Rule: "never"}, Shortfall{Obstacle: NotEligible, Name: "never"}},
		{Ask{GPUs: 1, Models: []string{"B"}}, Shortfall{Obstacle: NoSuchModel}},
		{Ask{GPUs: 3}, Shortfall{Obstacle: TooFewGPUs, Have: 2, Want: 3}},
		{Ask{GPUs: 2}, Shortfall{Obstacle: GPUsHeld, Have: 1, Want: 2}},
		{Ask{ShareMiB: 101}, Shortfall{Obstacle: TooFewGPUs, Have: 100, Want: 101}},
		{Ask{MilliCPU: 9000}, Shortfall{NodeTooSmall, NameCPU, 8000, 9000}},
		{Ask{MilliCPU: 5000}, Shortfall{ResourceHeld, NameCPU, 4000, 5000}},
		{Ask{Other: []Amount{{"nic", 1}}}, Shortfall{NodeTooSmall, "nic", 0, 1}},
	} {
		if got := c.Shortfall(c.class(t, test.ask), id); got != test.want {
			t.Errorf("%+v: %+v, want %+v", test.ask, got, test.want)
		}
	}
	c.goes(t, Ask{GPUs: 1})
	if got := c.Shortfall(c.class(t, Ask{ShareMilli: 5}), id); got != (Shortfall{Obstacle: ShareHeld, Want: 5}) {
		t.Errorf("with all GPUs held: %+v", got)
	}
}

func TestCannotFitAll(t *testing.T) {
	c := with(t, NodeSpec{Name: "a", MilliCPU: 8000, Devices: gpus(4, "A", 0)}, NodeSpec{Name: "b", MilliCPU: 8000, Devices: gpus(4, "B", 0)})
	whole, half, bare := c.class(t, Ask{GPUs: 2}), c.class(t, Ask{ShareMilli: 500}), c.class(t, Ask{MilliCPU: 4000})
	for _, test := range []struct {
		wants []Want
		want  bool
	}{
		{[]Want{{whole, 4}}, false},
		{[]Want{{whole, 5}}, true},
		{[]Want{{whole, 3}, {half, 4}}, false},
		{[]Want{{whole, 3}, {half, 5}}, true},
		{[]Want{{whole, 1}, {bare, 4}}, false},
		{[]Want{{whole, 1}, {bare, math.MaxInt}}, true},
		{nil, false},
	} {
		if got := c.CannotFitAll(test.wants); got != test.want {
			t.Errorf("%+v: %t", test.wants, got)
		}
	}
}

func TestDomains(t *testing.T) {
	var nodes []NodeSpec
	for i := range 8 {
		nodes = append(nodes, NodeSpec{Name: fmt.Sprint("n", i), MilliCPU: 1000, Domains: []string{fmt.Sprint("z", i/4), fmt.Sprint("r", i/2%2)}})
	}
	c := with(t, nodes...)
	if d := c.Domains(1, nil); len(d) != 2 || c.Depth() != 2 {
		t.Fatalf("%d zones, depth %d", len(d), c.Depth())
	}
	rack, ok := c.Domain("z1", "r0")
	if !ok {
		t.Fatal("z1/r0 is not known")
	}
	k := c.class(t, Ask{MilliCPU: 1000})
	if got := c.Room(k, Scope{Domain: rack}, 100); got != 2 {
		t.Errorf("room in the rack is %d", got)
	}
	seats := c.PlaceMany(k, 5, Scope{Domain: rack}, nil)
	if len(seats) != 2 || c.Name(seats[0].Node) != "n4" || c.NodeDomain(seats[1].Node, 2) != rack {
		t.Errorf("placed %+v", seats)
	}
	if !c.RemoveNode("n5") || len(c.DomainNodes(rack)) != 1 {
		t.Error("a removed node is still in its rack")
	}
	if got := c.Room(k, Scope{}, 100); got != 6 {
		t.Errorf("room is %d", got)
	}
}
