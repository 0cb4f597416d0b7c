package snapshot

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/inventory"
	"github.com/muster-dev/muster/internal/scheduling"
)

// named enters the GPUs that a node's drivers name in ResourceSlices: devices if the
// node is Muster's alone, else what others give out. It is false where there are
// none.
func named(n *corev1.Node, parts []*resourcev1.ResourceSlice, out *scheduling.Node) bool {
	gpus := inventory.Of(parts)
	if len(gpus) == 0 {
		return false
	}
	owned := n.Labels[v1alpha1.LabelOwned] == "true"
	out.Claims = true
	out.Whole = !slices.ContainsFunc(gpus, func(g inventory.GPU) bool { return g.Shared })
	for i := range gpus {
		g := &gpus[i]
		if owned {
			out.Devices = append(out.Devices, scheduling.Device{UUID: g.ID(), Index: g.Index, Model: g.Model, MemoryMiB: g.MemoryMiB, Unhealthy: g.Unhealthy})
			continue
		}
		at := slices.IndexFunc(out.Unowned, func(m scheduling.ModelCount) bool { return m.Model == g.Model })
		if at < 0 {
			at, out.Unowned = len(out.Unowned), append(out.Unowned, scheduling.ModelCount{Model: g.Model})
		}
		out.Unowned[at].Count++
	}
	return true
}

// nodeOf is the node that a slice is of; empty for one of several nodes.
func nodeOf(s *resourcev1.ResourceSlice) string {
	if s.Spec.NodeName == nil {
		return ""
	}
	return *s.Spec.NodeName
}

// byNode are slices by their node.
func byNode(all []resourcev1.ResourceSlice) map[string][]*resourcev1.ResourceSlice {
	out := map[string][]*resourcev1.ResourceSlice{}
	for i := range all {
		out[nodeOf(&all[i])] = append(out[nodeOf(&all[i])], &all[i])
	}
	return out
}
