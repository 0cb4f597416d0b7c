package memberpod

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/rendezvous"
)

// Seat is a member and its node.
type Seat struct {
	Member v1alpha1.PlacedMember
	// Node is the name of the node; empty if the placement names none.
	Node string
}

// Table returns the addresses of the members of an attempt: the loopback address
// if all are on one node and share its network, else their names. The argument nodes holds the
// names of all nodes of the attempt. The function node returns a node by its name, or nil if
// the node does not exist.
func Table(g *v1alpha1.Gang, seats []Seat, nodes []string, node func(string) *corev1.Node) rendezvous.Gang {
	local := oneNode(nodes, node)
	out := rendezvous.Gang{Name: g.Name, Framework: g.Spec.Rendezvous, Sparse: g.Spec.SparseCluster}
	gpus := map[string]int{}
	for i := range g.Spec.Roles {
		if q := g.Spec.Roles[i].GPUs; q != nil {
			gpus[g.Spec.Roles[i].Name] = int(q.Value())
		}
	}
	for i := range seats {
		m := seats[i].Member
		host := "127.0.0.1"
		if !local {
			host = fmt.Sprintf("%s.%s.%s.svc", Hostname(Name(g.Name, m.Role, m.Index)), g.Name, g.Namespace)
		}
		port := m.Port
		if at := seats[i].Node; at != "" && !sharesPorts(node(at)) {
			port = cmp.Or(declaredPort(Role(g, m.Role)), port)
		}
		out.Members = append(out.Members, rendezvous.Member{Role: m.Role, Index: m.Index, Host: host, Port: port, GPUs: gpus[m.Role]})
	}
	return out
}

// sharesPorts reports whether pods on the node share its network.
func sharesPorts(n *corev1.Node) bool {
	var inventory v1alpha1.NodeInventory
	if n == nil || json.Unmarshal([]byte(n.Annotations[v1alpha1.AnnotationInventory]), &inventory) != nil {
		return false
	}
	return inventory.HostPorts != nil
}

// declaredPort is the port that the role's template declares for its peers; 0 if
// it declares none.
func declaredPort(r *v1alpha1.GangRole) int32 {
	if p := peerPort(r, &r.Template.Spec); p != nil {
		return p.ContainerPort
	}
	return 0
}

// peerPort is the port, among the ports of a pod's first container, on which the
// role's members listen for their peers; nil if there is none.
func peerPort(r *v1alpha1.GangRole, s *corev1.PodSpec) *corev1.ContainerPort {
	if r.PortName == "" || len(s.Containers) == 0 {
		return nil
	}
	ports := s.Containers[0].Ports
	i := slices.IndexFunc(ports, func(p corev1.ContainerPort) bool { return p.Name == r.PortName })
	if i < 0 {
		return nil
	}
	return &ports[i]
}

// oneNode reports whether all nodes are the same one, and the members share its network.
func oneNode(nodes []string, node func(string) *corev1.Node) bool {
	if len(nodes) == 0 || slices.ContainsFunc(nodes, func(n string) bool { return n != nodes[0] }) {
		return false
	}
	return nodes[0] != "" && sharesPorts(node(nodes[0]))
}
