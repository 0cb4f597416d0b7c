package doctor

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/inventory"
)

// judgeAgent checks that Muster's agent runs on the nodes that it is meant for, and on those that
// have GPUs of the agent. It reports nothing if the agent is not wanted.
func judgeAgent(s scene) []Finding {
	const name = "node agent"
	var out []Finding
	if bare := withoutAgent(s); len(bare) > 0 {
		have := "nodes have"
		if len(bare) == 1 {
			have = "node has"
		}
		out = append(out, Finding{name, Bad, fmt.Sprintf("%d %s GPUs of the agent and no agent: %s. Pods with these GPUs stay in Terminating, and none starts", len(bare), have, some(bare)),
			"muster install --set agent.create=true; where agent.nodeSelector is set, it has to select these nodes"})
	}
	for i := range s.daemons {
		d := &s.daemons[i]
		if d.Name != "muster-node" {
			continue
		}
		want, have := d.Status.DesiredNumberScheduled, d.Status.NumberReady
		f := Finding{name, Good, fmt.Sprintf("%d of %s ready", have, terminal.Count(int64(want), "agent")), ""}
		switch {
		case want == 0:
			f = Finding{name, Limited, "it is to run on Muster's nodes, and there are none", "muster node add --force NODE: a node shows its GPUs once the agent runs there"}
		case have < want:
			f.Verdict, f.Fix = Limited, "kubectl -n "+v1alpha1.SystemNamespace+" describe pods -l app.kubernetes.io/component=node says why"
		}
		out = append(out, f)
	}
	return out
}

// withoutAgent returns the nodes, sorted, that show GPUs of the agent or have pods with
// some, and no pod of the agent.
func withoutAgent(s scene) []string {
	agents, reserved := map[string]bool{}, map[string]bool{}
	for i := range s.claims {
		c := &s.claims[i].Status
		if c.Allocation != nil && slices.ContainsFunc(c.Allocation.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool { return r.Driver == inventory.Driver }) {
			for _, by := range c.ReservedFor {
				reserved[string(by.UID)] = true
			}
		}
	}
	var nodes []string
	for i := range s.pods {
		p := &s.pods[i]
		switch {
		case p.Namespace == v1alpha1.SystemNamespace && p.Labels["app.kubernetes.io/component"] == "node":
			agents[p.Spec.NodeName] = true
		case reserved[string(p.UID)] && p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed:
			nodes = append(nodes, p.Spec.NodeName)
		}
	}
	for i := range s.slices {
		if spec := &s.slices[i].Spec; spec.Driver == inventory.Driver && spec.NodeName != nil {
			nodes = append(nodes, *spec.NodeName)
		}
	}
	slices.Sort(nodes)
	return slices.DeleteFunc(slices.Compact(nodes), func(n string) bool { return agents[n] })
}
