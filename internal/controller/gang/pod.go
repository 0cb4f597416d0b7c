package gang

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/memberpod"
	"github.com/muster-dev/muster/internal/rendezvous"
)

// table is how the members of an attempt reach one another.
func table(g *v1alpha1.Gang, members []place, node func(string) *corev1.Node) rendezvous.Gang {
	seats := make([]memberpod.Seat, len(members))
	var nodes []string
	for i := range members {
		at, row := members[i].placement.Spec.Nodes, members[i].member.Node
		if i == 0 || members[i].placement != members[i-1].placement {
			nodes = append(nodes, at...)
		}
		if seats[i].Member = members[i].member; row >= 0 && int(row) < len(at) {
			seats[i].Node = at[row]
		}
	}
	return memberpod.Table(g, seats, nodes, node)
}

// podOf makes the pod of one member, which asks for GPUs as its node has them.
func (c *Controller) podOf(ctx context.Context, g *v1alpha1.Gang, m *place, peers *rendezvous.Table) (*corev1.Pod, error) {
	var n *corev1.Node
	if row := m.member.Node; len(m.member.GPUs) > 0 && row >= 0 && int(row) < len(m.placement.Spec.Nodes) {
		n = c.node(ctx, m.placement.Spec.Nodes[row])
	}
	pod, err := memberpod.New(g, m.placement, m.member, memberpod.Resource(n, c.options.GPUResources), peers)
	if err == nil {
		memberpod.Claim(pod, n)
	}
	return pod, err
}
