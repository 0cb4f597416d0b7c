package top

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/cli/device"
)

// Others is the namespace that holders have in a report for somebody who may
// not see theirs.
const Others = "others"

// Seen reports what somebody may see who may see one namespace alone: every node
// and GPU, and of what others hold only that, since when, and how much.
func Seen(ctx context.Context, reader client.Reader, namespace string) (Report, error) {
	report, err := look(ctx, reader, nil)
	if err != nil {
		return Report{}, err
	}
	return report.seen(namespace), nil
}

func (r Report) seen(namespace string) Report {
	hide := func(h device.Holder) device.Holder {
		if h.Namespace == namespace {
			return h
		}
		return device.Holder{Namespace: Others, Pod: "pod", Since: h.Since, Share: h.Share}
	}
	out := Report{Nodes: slices.Clone(r.Nodes)}
	for i := range out.Nodes {
		n := &out.Nodes[i]
		n.GPUs, n.GoneGPUs, n.Quarantined = slices.Clone(n.GPUs), slices.Clone(n.GoneGPUs), slices.Clone(n.Quarantined)
		for k := range n.GPUs {
			g := &n.GPUs[k]
			if g.Holder != nil {
				hidden := hide(*g.Holder)
				g.Holder = &hidden
			}
			g.Sharers = slices.Clone(g.Sharers)
			for j := range g.Sharers {
				g.Sharers[j] = hide(g.Sharers[j])
			}
			g.Foreign = slices.Clone(g.Foreign)
			for j := range g.Foreign {
				g.Foreign[j].User, g.Foreign[j].Command = "somebody", "a process"
			}
		}
		for k := range n.GoneGPUs {
			n.GoneGPUs[k].Holder = hide(n.GoneGPUs[k].Holder)
		}
		for k := range n.Quarantined {
			n.Quarantined[k] = "a process"
		}
	}
	return out
}
