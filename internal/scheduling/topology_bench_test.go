package scheduling

import "testing"

// A gang of 1,000 members with 4 GPUs each on 5,000 nodes in 100 racks and two
// zones: anywhere, in one zone, apart; and what no rack has room for.
func BenchmarkTopology(b *testing.B) {
	c := NewCore(Options{})
	for _, n := range racks(100, benchNodes/100, 8) {
		n.Ports = nil
		c.SetNode(n)
	}
	for _, bench := range []struct {
		name string
		gang *requestBuilder
		fits bool
	}{
		{"anywhere", gang("g").role("worker", 1000, 4), true},
		{"within a zone", gang("g").role("worker", 1000, 4).within(LevelZone, true), true},
		{"within a rack, 100 members", gang("g").role("worker", 100, 4).within(LevelRack, true), true},
		{"near a rack, a zone will do", gang("g").role("worker", 1000, 4).within(LevelRack, false), true},
		{"one a node", gang("g").role("worker", 1000, 4).spread(LevelNode, true), true},
		{"spread over racks", gang("g").role("worker", 1000, 4).spread(LevelRack, false), true},
		{"spread over zones", gang("g").role("worker", 1000, 4).spread(LevelZone, false), true},
		{"within a rack, too large", gang("g").role("worker", 1000, 4).within(LevelRack, true), false},
		{"within a node, too large", gang("g").role("worker", 1000, 4).within(LevelNode, true), false},
	} {
		c.SetRequest(bench.gang.obj())
		e := c.entries["uid-g"]
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f, ok := c.place(e, nil)
				if ok != bench.fits {
					b.Fatalf("it fits: %t", ok)
				}
				if ok {
					f.back()
				}
			}
		})
		c.Drop("uid-g")
	}
}

// Why a gang waits that has to be in one rack, on one node or apart, on 5,000
// nodes that are full.
func BenchmarkTopologyReason(b *testing.B) {
	s := benchSnapshot(5000, 8)
	for i, n := range racks(100, benchNodes/100, 8) {
		s.Nodes[i].Domains = n.Domains
	}
	c := load(s)
	left := c.house()
	for _, bench := range []struct {
		name string
		gang *requestBuilder
	}{
		{"within a rack", gang("g").role("worker", 100, 4).within(LevelRack, true)},
		{"within a node", gang("g").role("worker", 2, 4).within(LevelNode, true)},
		{"one a node", gang("g").role("worker", 1000, 4).spread(LevelNode, true)},
	} {
		c.SetRequest(bench.gang.obj())
		e := c.entries["uid-g"]
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				if c.reason(e, s.Now, left) == nil {
					b.Fatal("it has no reason")
				}
			}
		})
		c.Drop("uid-g")
	}
}
