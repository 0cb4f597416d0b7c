package v1alpha1

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// TestPlacedMembers: what is added comes out again, one by one and in order, in as
// few entries as can be told apart.
func TestPlacedMembers(t *testing.T) {
	plain := func(role string, index, node, port int32, gpus ...string) PlacedMember {
		return PlacedMember{Role: role, Index: index, Node: node, Port: port, GPUs: gpus}
	}
	half := func(index int32, milli int32) PlacedMember {
		return PlacedMember{Role: "w", Index: index, Share: &GPUShare{Milli: milli}, GPUs: []string{"GPU-1"}, Port: 1}
	}
	for _, test := range []struct {
		name    string
		members []PlacedMember
		entries int
	}{
		{"none", nil, 0},
		{"one", []PlacedMember{plain("ps", 0, 0, 2222)}, 1},
		{"alike", []PlacedMember{plain("w", 0, 4, 1), plain("w", 1, 4, 1), plain("w", 2, 0, 1)}, 1},
		{"named GPUs", []PlacedMember{plain("w", 0, 4, 1, "GPU-1"), plain("w", 1, 4, 1, "GPU-2", "GPU-3"), plain("w", 2, 0, 1)}, 1},
		{"two roles", []PlacedMember{plain("ps", 0, 0, 1), plain("w", 0, 0, 1), plain("w", 1, 1, 1)}, 2},
		{"one is missing", []PlacedMember{plain("w", 0, 0, 1), plain("w", 2, 1, 1)}, 2},
		{"another port", []PlacedMember{plain("w", 0, 0, 1), plain("w", 1, 0, 2)}, 2},
		{"backwards", []PlacedMember{plain("w", 1, 0, 1), plain("w", 0, 0, 1)}, 2},
		{"as much each", []PlacedMember{half(0, 500), half(1, 500)}, 1},
		{"not as much", []PlacedMember{half(0, 500), half(1, 250), plain("w", 2, 0, 1)}, 3},
		{"names that are two", []PlacedMember{plain("w", 0, 0, 1, "a b"), plain("w", 1, 0, 1, "c d"), plain("w", 2, 0, 1, "")}, 3},
	} {
		t.Run(test.name, func(t *testing.T) { check(t, test.members, test.entries) })
	}
	for range 200 {
		var members []PlacedMember
		for range rand.IntN(30) {
			m := plain([]string{"ps", "worker"}[rand.IntN(2)], int32(rand.IntN(4)), int32(rand.IntN(3)), int32(rand.IntN(2)))
			m.GPUs = [][]string{nil, {"GPU-1"}, {"GPU-2", "GPU-3"}}[rand.IntN(3)]
			if n := len(members); n > 0 && rand.IntN(3) > 0 {
				m = members[n-1]
				m.Index, m.Node = m.Index+1, int32(rand.IntN(3))
			}
			members = append(members, m)
		}
		check(t, members, -1)
	}
}

// check adds members and compares what is there then; entries < 0: however many.
func check(t *testing.T, members []PlacedMember, entries int) {
	t.Helper()
	var s PlacementSpec
	for _, m := range members {
		s.Add(m)
	}
	if got := slices.Collect(s.Each()); !reflect.DeepEqual(got, members) {
		t.Errorf("got %v, want %v", got, members)
	}
	if s.Count() != len(members) {
		t.Errorf("counted %d, want %d", s.Count(), len(members))
	}
	if entries >= 0 && len(s.Members) != entries {
		t.Errorf("%d entries, want %d: %v", len(s.Members), entries, s.Members)
	}
	for n := range len(members) { // whoever has seen enough is asked no more
		seen := 0
		for range s.Each() {
			if seen++; seen > n {
				break
			}
		}
		if seen != n+1 {
			t.Errorf("saw %d members, want %d", seen, n+1)
		}
	}
}

// TestALineThatCannotBeRead: its member is on no node.
func TestALineThatCannotBeRead(t *testing.T) {
	s := PlacementSpec{Nodes: []string{"a"}, Members: []PlacedMember{{Role: "w", Following: []string{"", "x GPU-1", "99999999999", "-7", "0 ", "0  GPU-1", "0 GPU-1"}}}}
	var nodes []int32
	for m := range s.Each() {
		nodes = append(nodes, m.Node)
		if slices.Contains(m.GPUs, "") {
			t.Errorf("member %d has GPUs %q", m.Index, m.GPUs)
		}
	}
	if want := []int32{0, -1, -1, -1, -1, -1, -1, 0}; !slices.Equal(nodes, want) {
		t.Errorf("nodes %v, want %v", nodes, want)
	}
}
