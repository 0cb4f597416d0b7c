package status

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/device"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/cli/standstill"
	"github.com/muster-dev/muster/internal/snapshot"
	"github.com/muster-dev/muster/internal/visibility"
)

// Seen reports how Muster is, as a caller sees it: the nodes with their GPUs, the jobs that
// the caller sees, and who has parts of GPUs. State is what this Muster says of itself.
func Seen(ctx context.Context, reader client.Reader, rule visibility.Rule, logins visibility.Logins, state instance.State) (Report, error) {
	r := Report{Alive: true, State: public(state)}
	if err := r.read(ctx, reader); err != nil {
		return Report{}, err
	}
	return r.seen(rule, logins), nil
}

// public are the fields of a state that every user may read.
func public(s instance.State) instance.State {
	return instance.State{
		Phase: s.Phase, Version: s.Version, Started: s.Started, LowRoom: s.LowRoom, Server: s.Server, Node: s.Node, Tier: s.Tier,
		TierReason: s.TierReason, GPUSource: s.GPUSource, Images: s.Images, S3: s.S3, PodS3: s.PodS3,
		Console: s.Console, NoConsole: s.NoConsole,
	}
}

// read reads nodes, pods, jobs and whether scheduling is paused.
func (r *Report) read(ctx context.Context, reader client.Reader) error {
	var pods corev1.PodList
	var jobs v1alpha1.TrainingJobList
	nodes, err := snapshot.Nodes(ctx, reader)
	if err != nil {
		return err
	}
	if err := reader.List(ctx, &pods); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	if err := reader.List(ctx, &jobs); err != nil {
		return fmt.Errorf("listing jobs: %w", err)
	}
	if r.Paused, err = standstill.Everywhere(ctx, reader); err != nil {
		return err
	}
	for i := range nodes {
		r.Nodes = append(r.Nodes, describeNode(&nodes[i], pods.Items))
	}
	r.byNamespace = map[string]map[v1alpha1.JobPhase]int{}
	for i := range jobs.Items {
		of := r.byNamespace[jobs.Items[i].Namespace]
		if of == nil {
			of = map[v1alpha1.JobPhase]int{}
			r.byNamespace[jobs.Items[i].Namespace] = of
		}
		of[jobs.Items[i].Status.Phase]++
	}
	r.count(visibility.Everything())
	return nil
}

// count counts the jobs that a caller sees.
func (r *Report) count(rule visibility.Rule) {
	r.Jobs = map[v1alpha1.JobPhase]int{}
	for namespace, phases := range r.byNamespace {
		for phase, n := range phases {
			if rule.Sees(namespace) {
				r.Jobs[phase] += n
			}
		}
	}
}

// seen is the report with the names that a caller sees.
func (r Report) seen(rule visibility.Rule, logins visibility.Logins) Report {
	r.count(rule)
	r.Nodes = slices.Clone(r.Nodes)
	for i := range r.Nodes {
		n := &r.Nodes[i]
		n.GPUs, n.Quarantined, n.GoneGPUs, n.Shared = slices.Clone(n.GPUs), slices.Clone(n.Quarantined), slices.Clone(n.GoneGPUs), slices.Clone(n.Shared)
		gpus := make([]*v1alpha1.GPUDevice, len(n.GPUs))
		for k := range n.GPUs {
			gpus[k] = &n.GPUs[k]
		}
		device.SeenOn(rule, n.Quarantined, gpus...)
		for k := range n.GoneGPUs {
			n.GoneGPUs[k].Holder = n.GoneGPUs[k].Holder.Seen(rule, logins)
		}
		for k := range n.Shared {
			n.Shared[k].Holders = slices.Clone(n.Shared[k].Holders)
			for j, h := range n.Shared[k].Holders {
				n.Shared[k].Holders[j] = h.Seen(rule, logins)
			}
		}
	}
	return r
}

// atDoor has Muster itself report, for a caller who may not look.
func atDoor(ctx context.Context, f *connection.Factory) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	manager, err := f.Visitor()
	if err != nil {
		return Report{}, err
	}
	namespace, err := f.Namespace()
	if err != nil {
		return Report{}, err
	}
	var report Report
	err = manager.Ask(ctx, namespace, "/status", nil, &report)
	return report, err
}
