package scheduling

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// A gang that would rather be in one rack, and finds none with room, is in as
// few racks as any way of placing it could do, and within one zone where a zone
// has room.
func TestGather(t *testing.T) {
	before, after, least := 0, 0, 0
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 3))
		c := NewCore(Options{})
		room, zone := map[string]int{}, map[string]int{}
		for _, n := range racks(8, 6, 8) {
			free := rng.IntN(3) * 4
			n.Devices = n.Devices[:free]
			room[n.Domains.Rack] += free / 4
			zone[n.Domains.Zone] += free / 4
			c.SetNode(n)
		}
		all := zone["z0"] + zone["z1"]
		members := 1 + rng.IntN(all)
		r := gang("g").role("w", int32(members), 4).within(LevelRack, false).obj()
		c.SetRequest(r)
		e := c.entries[r.UID]
		if old, ok := c.placeIn(e, nil, placement.NoDomain, false); ok {
			before += len(racksOf(old))
			old.back()
		}
		f, ok := c.place(e, nil)
		if !ok {
			t.Fatalf("seed %d: no room for %d of %d", seed, members, all)
		}
		got := racksOf(f)
		var choices [][]int
		for _, z := range []string{"z0", "z1"} {
			if zone[z] >= members {
				choices = append(choices, roomsOf(room, func(rack string) bool { return (rack < "r04") == (z == "z0") }))
			}
		}
		if choices == nil {
			choices = [][]int{roomsOf(room, func(string) bool { return true })}
		}
		few := 100
		for _, rooms := range choices {
			few = min(few, fewest(rooms, members))
		}
		most := 0
		for _, rooms := range choices {
			most = max(most, fewest(rooms, members))
		}
		// Of several zones with room the fuller one is taken, so it may not be
		// the one with the fewest racks.
		if len(got) > most {
			t.Errorf("seed %d: %d members are in %d racks %v; %d would do", seed, members, len(got), got, most)
		}
		after, least = after+len(got), least+few
		f.back()
		if left := c.cluster.Totals(); left.WholeFree != int64(all*4) {
			t.Fatalf("seed %d: %d GPUs are free after all was given back, want %d", seed, left.WholeFree, all*4)
		}
	}
	t.Logf("racks used by 100 gangs: %d anywhere, %d gathered, %d at least", before, after, least)
	if after >= before {
		t.Errorf("gathered gangs are in %d racks, others in %d", after, before)
	}
}

// Roles that want different things are gathered where the others are.
func TestGatherRoles(t *testing.T) {
	c := NewCore(Options{})
	for _, n := range racks(4, 3, 8) {
		c.SetNode(n)
	}
	r := gang("g").role("worker", 4, 8).role("ps", 2, 0).within(LevelRack, false).obj()
	c.SetRequest(r)
	f, ok := c.place(c.entries[r.UID], nil)
	if !ok {
		t.Fatal("no room")
	}
	if got := racksOf(f); len(got) != 2 {
		t.Errorf("in %v, want two racks", got)
	}
}

func racksOf(f *fit) []string {
	var out []string
	for i := range f.held {
		if rack := f.held[i].site.node.Domains.Rack; !slices.Contains(out, rack) {
			out = append(out, rack)
		}
	}
	return out
}

func roomsOf(room map[string]int, in func(rack string) bool) []int {
	var out []int
	for rack, n := range room {
		if in(rack) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out
}

// fewest is how many of the rooms, the largest first, members need.
func fewest(rooms []int, members int) int {
	for i, n := range rooms {
		if members -= n; members <= 0 {
			return i + 1
		}
	}
	panic(fmt.Sprint("no room for ", members))
}
