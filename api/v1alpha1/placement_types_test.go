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
	named := PlacedMember{Role: "worker", Index: 3, Node: 3, GPUs: []string{"GPU-1"}, Port: 2222}
	shared := PlacedMember{Role: "worker", Index: 3, Node: 3, Share: &GPUShare{Milli: 500}, Port: 2222}
	plain := func(role string, index, node, port int32) PlacedMember {
		return PlacedMember{Role: role, Index: index, Node: node, Port: port}
	}
	for _, test := range []struct {
		name    string
		members []PlacedMember
		entries int
	}{
		{"none", nil, 0},
		{"one", []PlacedMember{plain("ps", 0, 0, 2222)}, 1},
		{"alike", []PlacedMember{plain("w", 0, 4, 1), plain("w", 1, 4, 1), plain("w", 2, 0, 1)}, 1},
		{"two roles", []PlacedMember{plain("ps", 0, 0, 1), plain("w", 0, 0, 1), plain("w", 1, 1, 1)}, 2},
		{"one is missing", []PlacedMember{plain("w", 0, 0, 1), plain("w", 2, 1, 1)}, 2},
		{"another port", []PlacedMember{plain("w", 0, 0, 1), plain("w", 1, 0, 2)}, 2},
		{"backwards", []PlacedMember{plain("w", 1, 0, 1), plain("w", 0, 0, 1)}, 2},
		{"named GPUs", []PlacedMember{plain("worker", 2, 0, 2222), named, plain("worker", 4, 0, 2222)}, 3},
		{"a share", []PlacedMember{plain("worker", 2, 0, 2222), shared, plain("worker", 4, 0, 2222)}, 3},
	} {
		t.Run(test.name, func(t *testing.T) { check(t, test.members, test.entries) })
	}
	for range 200 {
		var members []PlacedMember
		for range rand.IntN(30) {
			m := plain([]string{"ps", "worker"}[rand.IntN(2)], int32(rand.IntN(4)), int32(rand.IntN(3)), int32(rand.IntN(2)))
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
	for range s.Each() {
		break // which ends it
	}
}
