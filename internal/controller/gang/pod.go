package gang

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fencing"
	"github.com/muster-dev/muster/internal/rendezvous"
)

// podName is the name of a member's pod.
func podName(gang, role string, index int32) string {
	return fmt.Sprintf("%s-%s-%d", gang, role, index)
}

// hostname is the host name of a pod: its name, shortened where a host name
// may not be as long.
func hostname(pod string) string {
	const longest = 63
	if len(pod) <= longest {
		return pod
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(pod))
	return fmt.Sprintf("%s-%08x", strings.TrimRight(pod[:longest-9], "-"), sum.Sum32())
}

// sharesPorts reports whether pods on the node share its network.
func sharesPorts(n *corev1.Node) bool {
	var inventory v1alpha1.NodeInventory
	if n == nil || json.Unmarshal([]byte(n.Annotations[v1alpha1.AnnotationInventory]), &inventory) != nil {
		return false
	}
	return inventory.HostPorts != nil
}

// table is how the members of an attempt reach one another: over the loopback
// where all are on one node and share its network, else by name.
func table(g *v1alpha1.Gang, members []place, node func(string) *corev1.Node) rendezvous.Gang {
	local := oneNode(members, node)
	out := rendezvous.Gang{Name: g.Name, Framework: g.Spec.Rendezvous, Sparse: g.Spec.SparseCluster}
	gpus := map[string]int{}
	for i := range g.Spec.Roles {
		if q := g.Spec.Roles[i].GPUs; q != nil {
			gpus[g.Spec.Roles[i].Name] = int(q.Value())
		}
	}
	for i := range members {
		m := members[i].member
		host := "127.0.0.1"
		if !local {
			host = fmt.Sprintf("%s.%s.%s.svc", hostname(podName(g.Name, m.Role, m.Index)), g.Name, g.Namespace)
		}
		port := m.Port
		if at := members[i].placement.Spec.Nodes; m.Node >= 0 && int(m.Node) < len(at) && !sharesPorts(node(at[m.Node])) {
			port = cmp.Or(declaredPort(roleOf(g, m.Role)), port)
		}
		out.Members = append(out.Members, rendezvous.Member{Role: m.Role, Index: m.Index, Host: host, Port: port, GPUs: gpus[m.Role]})
	}
	return out
}

// declaredPort is the port that the role's template declares for its peers; 0 if
// it declares none.
func declaredPort(r *v1alpha1.GangRole) int32 {
	if p := peerPort(r, &r.Template.Spec); p != nil {
		return p.ContainerPort
	}
	return 0
}

// peerPort is the port, among those of a pod's first container, on which the
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

// oneNode reports whether all members are on one node that shares its network.
func oneNode(members []place, node func(string) *corev1.Node) bool {
	name := ""
	for i := range members {
		for _, n := range members[i].placement.Spec.Nodes {
			if name != "" && n != name {
				return false
			}
			name = n
		}
	}
	return name != "" && sharesPorts(node(name))
}

// podOf makes the pod of one member, which asks for GPUs as its node has them.
func (c *Controller) podOf(ctx context.Context, g *v1alpha1.Gang, m *place, peers *rendezvous.Table) (*corev1.Pod, error) {
	var n *corev1.Node
	if row := m.member.Node; len(m.member.GPUs) > 0 && row >= 0 && int(row) < len(m.placement.Spec.Nodes) {
		n = c.node(ctx, m.placement.Spec.Nodes[row])
	}
	pod, err := newPod(g, m.placement, m.member, gpuResource(n, c.options.GPUResources), peers)
	if err == nil {
		claimGPUs(pod, n)
	}
	return pod, err
}

// gpuResource is the resource by which a node's GPUs are asked for: of those that
// are known the first that it has, also while none of it is healthy.
func gpuResource(n *corev1.Node, known []corev1.ResourceName) corev1.ResourceName {
	if n == nil {
		return known[0]
	}
	for _, list := range []corev1.ResourceList{n.Status.Allocatable, n.Status.Capacity} {
		for _, name := range known {
			if q := list[name]; q.Sign() > 0 {
				return name
			}
		}
	}
	return known[0]
}

// newPod makes the pod of one member of a placement; gpus is the resource by
// which it asks for GPUs.
func newPod(g *v1alpha1.Gang, p *v1alpha1.Placement, m v1alpha1.PlacedMember, gpus corev1.ResourceName, peers *rendezvous.Table) (*corev1.Pod, error) {
	role := roleOf(g, m.Role)
	if role == nil || m.Node < 0 || int(m.Node) >= len(p.Spec.Nodes) {
		return nil, fmt.Errorf("making the pod of %s-%d: placement %s does not fit its gang", m.Role, m.Index, p.Name)
	}
	vars, err := peers.Render(m.Role, m.Index)
	if err != nil {
		return nil, err
	}
	name := podName(g.Name, m.Role, m.Index)
	t := role.Template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: g.Namespace, Name: name, Labels: t.Labels, Annotations: t.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(g, v1alpha1.GroupVersion.WithKind("Gang"))},
		},
		Spec: t.Spec,
	}
	if port, ok := peers.Port(m.Role, m.Index); ok {
		m.Port = port
	}
	mark(pod, g, p, m)
	if err := markShare(pod, m); err != nil {
		return nil, fmt.Errorf("making the pod of %s-%d: writing its share: %w", m.Role, m.Index, err)
	}
	s := &pod.Spec
	s.NodeName = p.Spec.Nodes[m.Node]
	s.SchedulerName = v1alpha1.SchedulerName
	s.RestartPolicy = corev1.RestartPolicyNever
	s.Hostname, s.Subdomain = hostname(name), g.Name
	if s.AutomountServiceAccountToken == nil {
		no := false
		s.AutomountServiceAccountToken = &no
	}
	if len(s.Containers) > 0 {
		setRequest(&s.Containers[0], role, gpus)
	}
	if port := peerPort(role, s); port != nil {
		port.ContainerPort = m.Port
	}
	for i := range s.Containers {
		s.Containers[i].Env = visible(environment(vars, s.Containers[i].Env), i == 0 && len(m.GPUs) > 0)
	}
	for i := range s.InitContainers {
		s.InitContainers[i].Env = visible(environment(vars, s.InitContainers[i].Env), false)
	}
	return pod, nil
}

// mark sets the labels and annotations by which everyone knows a member.
func mark(pod *corev1.Pod, g *v1alpha1.Gang, p *v1alpha1.Placement, m v1alpha1.PlacedMember) {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	chosen(pod, roleOf(g, m.Role), m.Index)
	pod.Labels[v1alpha1.LabelGang] = g.Name
	pod.Labels[v1alpha1.LabelRole] = m.Role
	pod.Labels[v1alpha1.LabelIndex] = strconv.Itoa(int(m.Index))
	pod.Labels[v1alpha1.LabelAttempt] = strconv.Itoa(int(p.Spec.Attempt))
	if job := g.Labels[v1alpha1.LabelJob]; job != "" {
		pod.Labels[v1alpha1.LabelJob] = job
	}
	guard(pod, g)
	hold(pod, len(m.GPUs) > 0 || several(g))
	delete(pod.Annotations, v1alpha1.AnnotationExtension)
	if p.Spec.Extends != "" {
		pod.Annotations[v1alpha1.AnnotationExtension] = p.Name
	}
	delete(pod.Annotations, v1alpha1.AnnotationGPUs)
	if len(m.GPUs) > 0 {
		pod.Annotations[v1alpha1.AnnotationGPUs] = strings.Join(m.GPUs, ",")
	}
	pod.Annotations[v1alpha1.AnnotationPort] = strconv.Itoa(int(m.Port))
	pod.Annotations[v1alpha1.AnnotationEpoch] = fencing.Text(fencing.Of(p))
	pod.Annotations[v1alpha1.AnnotationPlacement] = fencing.Origin(p)
}

// chosen sets the labels that the user chose for a member. Muster's own are set after
// them and not by them.
func chosen(pod *corev1.Pod, role *v1alpha1.GangRole, index int32) {
	if role == nil {
		return
	}
	for _, key := range role.IndexLabels {
		pod.Labels[key] = strconv.Itoa(int(index))
	}
	if index == 0 {
		maps.Copy(pod.Labels, role.FirstLabels)
	}
	maps.DeleteFunc(pod.Labels, func(key, _ string) bool { return v1alpha1.Reserved(key) && key != v1alpha1.LabelJob })
}

// guard keeps others from evicting a member that others of the gang need: a
// budget of the namespace selects the label.
func guard(pod *corev1.Pod, g *v1alpha1.Gang) {
	delete(pod.Labels, v1alpha1.LabelGuarded)
	if !several(g) {
		return
	}
	pod.Labels[v1alpha1.LabelGuarded] = "true"
}

// several reports whether a gang has more than one member.
func several(g *v1alpha1.Gang) bool { return !alone(g) }

// The annotations by which autoscalers are kept from removing a node for the
// sake of fewer nodes: those of Cluster Autoscaler and Karpenter.
const (
	annotationSafeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	annotationDoNotDisrupt = "karpenter.sh/do-not-disrupt"
)

// hold asks autoscalers to leave the node of a member alone where that would cost
// work: it has GPUs, or others need it. What the template says stays.
func hold(pod *corev1.Pod, costs bool) {
	if !costs {
		return
	}
	for key, value := range map[string]string{annotationSafeToEvict: "false", annotationDoNotDisrupt: "true"} {
		if _, said := pod.Annotations[key]; !said {
			pod.Annotations[key] = value
		}
	}
}

// environment puts the rendezvous variables before a container's own, so that
// those may refer to them, and MUSTER_ROOT before everything. What the
// container sets itself is its own.
func environment(vars, own []corev1.EnvVar) []corev1.EnvVar {
	names := map[string]bool{}
	root := corev1.EnvVar{Name: v1alpha1.EnvRoot, Value: v1alpha1.PodRoot}
	for _, v := range own {
		names[v.Name] = true
		if v.Name == v1alpha1.EnvRoot {
			root = v
		}
	}
	out := make([]corev1.EnvVar, 0, 1+len(vars)+len(own))
	out = append(out, root)
	for _, v := range vars {
		if !names[v.Name] {
			out = append(out, v)
		}
	}
	for _, v := range own {
		if v.Name != v1alpha1.EnvRoot {
			out = append(out, v)
		}
	}
	return out
}

// envVisible is the variable by which NVIDIA's container runtime shows GPUs to a container.
// It believes images and users, too: an image for CUDA sets it to all.
const envVisible = "NVIDIA_VISIBLE_DEVICES"

// visible leaves it to the node which GPUs a container sees that was given some, and shows
// none to the others.
func visible(env []corev1.EnvVar, given bool) []corev1.EnvVar {
	env = slices.DeleteFunc(env, func(v corev1.EnvVar) bool { return v.Name == envVisible })
	if !given {
		env = append(env, corev1.EnvVar{Name: envVisible, Value: "void"})
	}
	return env
}

func roleOf(g *v1alpha1.Gang, name string) *v1alpha1.GangRole {
	i := slices.IndexFunc(g.Spec.Roles, func(r v1alpha1.GangRole) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &g.Spec.Roles[i]
}
