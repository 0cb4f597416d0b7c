package inventory

import (
	resourcev1 "k8s.io/api/resource/v1"
)

// pool identifies one: a driver may have several.
type pool struct{ driver, name string }

func poolOf(s *resourcev1.ResourceSlice) pool { return pool{s.Spec.Driver, s.Spec.Pool.Name} }

// Whole are the slices of which the pools of a node consist: of each pool those of
// its newest generation of which all are there. A driver whose GPUs change, or that
// starts anew, writes one slice after the other; until it is done a pool stands as
// it stood: as it was told before (before is what Whole returned then, nil at
// first). A pool of which no generation was ever whole does not count, nor one that
// has no slices any more. In what order slices are given does not matter.
//
// Upstream's allocator passes over a pool whose newest generation is not whole
// (k8s.io/dynamic-resource-allocation/structured): it would only wait, where a
// ledger would lose GPUs that are in use.
func Whole(before, now []*resourcev1.ResourceSlice) []*resourcev1.ResourceSlice {
	type edition struct {
		pool
		generation int64
	}
	editions := map[edition][]*resourcev1.ResourceSlice{}
	there, newest := map[pool]bool{}, map[pool]int64{}
	for _, s := range now {
		e := edition{poolOf(s), s.Spec.Pool.Generation}
		editions[e] = append(editions[e], s)
		there[e.pool] = true
	}
	for e, all := range editions {
		if known, ok := newest[e.pool]; int64(len(all)) == all[0].Spec.Pool.ResourceSliceCount && (!ok || e.generation > known) {
			newest[e.pool] = e.generation
		}
	}
	var out []*resourcev1.ResourceSlice
	for _, s := range now {
		if g, ok := newest[poolOf(s)]; ok && s.Spec.Pool.Generation == g {
			out = append(out, s)
		}
	}
	for _, s := range before {
		p := poolOf(s)
		if _, ok := newest[p]; !ok && there[p] {
			out = append(out, s)
		}
	}
	return out
}
