package top

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/device"
	"github.com/muster-dev/muster/internal/visibility"
)

// Seen reports what a caller sees: every node and GPU, and who holds them with the names
// that the rule shows. Measure may be nil.
func Seen(ctx context.Context, reader client.Reader, rule visibility.Rule, logins visibility.Logins, measure Sampler) (Report, error) {
	report, err := look(ctx, reader, measure)
	if err != nil {
		return Report{}, err
	}
	if rule.ShowUsers {
		if err := report.addQueues(ctx, reader); err != nil {
			return Report{}, err
		}
	}
	return report.seen(rule, logins), nil
}

// addQueues adds the queues of the jobs that hold GPUs.
func (r Report) addQueues(ctx context.Context, reader client.Reader) error {
	var gangs v1alpha1.GangList
	if err := reader.List(ctx, &gangs, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the gangs: %w", err)
	}
	queues := make(map[string]string, len(gangs.Items))
	for i := range gangs.Items {
		g := &gangs.Items[i]
		queues[g.Namespace+"/"+g.Name] = g.Spec.Queue
	}
	r.each(func(h *device.Holder) {
		if h.Job != "" {
			h.Queue = queues[h.Namespace+"/"+h.Job]
		}
	})
	return nil
}

// each changes every holder of a GPU.
func (r Report) each(change func(*device.Holder)) {
	for i := range r.Nodes {
		n := &r.Nodes[i]
		for k := range n.GPUs {
			if n.GPUs[k].Holder != nil {
				change(n.GPUs[k].Holder)
			}
			for j := range n.GPUs[k].Sharers {
				change(&n.GPUs[k].Sharers[j])
			}
		}
		for k := range n.GoneGPUs {
			change(&n.GoneGPUs[k].Holder)
		}
	}
}

// seen is the report with the names that a caller sees. The report itself is not changed.
func (r Report) seen(rule visibility.Rule, logins visibility.Logins) Report {
	out := Report{Nodes: slices.Clone(r.Nodes)}
	for i := range out.Nodes {
		n := &out.Nodes[i]
		n.GPUs, n.GoneGPUs, n.Quarantined = slices.Clone(n.GPUs), slices.Clone(n.GoneGPUs), slices.Clone(n.Quarantined)
		for k := range n.GPUs {
			g := &n.GPUs[k]
			if g.Holder != nil {
				holder := *g.Holder
				g.Holder = &holder
			}
			g.Sharers = slices.Clone(g.Sharers)
		}
		device.SeenOn(rule, n.Quarantined, gpusOf(n.GPUs)...)
	}
	out.each(func(h *device.Holder) { *h = h.Seen(rule, logins) })
	return out
}

// gpusOf are the devices of a node's GPUs.
func gpusOf(gpus []GPU) []*v1alpha1.GPUDevice {
	out := make([]*v1alpha1.GPUDevice, len(gpus))
	for i := range gpus {
		out[i] = &gpus[i].GPUDevice
	}
	return out
}
