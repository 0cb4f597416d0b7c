package scheduling

import (
	"fmt"
	"testing"
)

// TestGrowthKeepsToTheGang grows a gang on four nodes with two GPUs each, two
// nodes in each of two racks: members that are added are where the gang is, and
// apart from those that are there, as its roles say.
func TestGrowthKeepsToTheGang(t *testing.T) {
	tests := []struct {
		name     string
		topology Topology
		spread   Spread
		// members and nodes are how many it comes to have, on how many nodes;
		// racks on how many racks.
		members, nodes, racks int
	}{
		{name: "anywhere", members: 8, nodes: 4, racks: 2},
		{name: "within one rack", topology: Topology{Within: LevelRack, Required: true}, members: 4, nodes: 2, racks: 1},
		{name: "near one rack", topology: Topology{Within: LevelRack}, members: 8, nodes: 4, racks: 2},
		{name: "within one node", topology: Topology{Within: LevelNode, Required: true}, members: 2, nodes: 1, racks: 1},
		{name: "one a node", spread: Spread{Over: LevelNode, Required: true}, members: 4, nodes: 4, racks: 2},
		{name: "one a rack", spread: Spread{Over: LevelRack, Required: true}, members: 2, nodes: 2, racks: 2},
		{name: "spread over nodes", spread: Spread{Over: LevelNode}, members: 8, nodes: 4, racks: 2},
		{name: "one a node of one rack", topology: Topology{Within: LevelRack, Required: true}, spread: Spread{Over: LevelNode, Required: true}, members: 2, nodes: 2, racks: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var nodes []Node
			for i := range 4 {
				n := testNode(fmt.Sprint("n", i), "A100", 2)
				n.Domains = Domains{Zone: "z", Rack: fmt.Sprint("r", i/2)}
				nodes = append(nodes, n)
			}
			j := newJournalled(t, nodes...)
			r := gang("sweep").role("worker", 8, 1).elastic(1).obj()
			r.Topology, r.Roles[0].Spread = tt.topology, tt.spread
			j.ask(r)
			for range 10 {
				j.pass()
			}
			members, on := 0, map[string]bool{}
			for _, p := range j.snap.Placements {
				for _, m := range p.Members {
					if len(m.GPUs) > 0 {
						members++
						on[m.Node] = true
					}
				}
			}
			racks := map[bool]bool{}
			for name := range on {
				racks[name < "n2"] = true
			}
			if members != tt.members || len(on) != tt.nodes || len(racks) != tt.racks {
				t.Errorf("%d members on %d nodes in %d racks, want %d on %d in %d", members, len(on), len(racks), tt.members, tt.nodes, tt.racks)
			}
		})
	}
}

// TestGrowthSpreadsFirst adds members where none of the role is yet, while
// there is such a place.
func TestGrowthSpreadsFirst(t *testing.T) {
	j := newJournalled(t, testNode("a", "A100", 4), testNode("b", "A100", 4))
	r := gang("sweep").role("worker", 2, 1).elastic(1).obj()
	r.Roles[0].Spread = Spread{Over: LevelNode}
	j.ask(r)
	for range 3 {
		j.pass()
	}
	on := map[string]bool{}
	for _, p := range j.snap.Placements {
		for _, m := range p.Members {
			if len(m.GPUs) > 0 {
				on[m.Node] = true
			}
		}
	}
	if len(on) != 2 {
		t.Errorf("two members are on %v, want one a node", on)
	}
}
