package memberpod

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fencing"
	"github.com/muster-dev/muster/internal/rendezvous"
)

// New makes the pod of one member of a placement; gpus is the resource name of
// its request for GPUs, and peers holds the addresses of the other members.
func New(g *v1alpha1.Gang, p *v1alpha1.Placement, m v1alpha1.PlacedMember, gpus corev1.ResourceName, peers *rendezvous.Table) (*corev1.Pod, error) {
	role := Role(g, m.Role)
	if role == nil || m.Node < 0 || int(m.Node) >= len(p.Spec.Nodes) {
		return nil, fmt.Errorf("making the pod of %s-%d: placement %s does not fit its gang", m.Role, m.Index, p.Name)
	}
	vars, err := peers.Render(m.Role, m.Index)
	if err != nil {
		return nil, err
	}
	name := Name(g.Name, m.Role, m.Index)
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
	s.Hostname, s.Subdomain = Hostname(name), g.Name
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

// mark sets the labels and annotations that identify a member.
func mark(pod *corev1.Pod, g *v1alpha1.Gang, p *v1alpha1.Placement, m v1alpha1.PlacedMember) {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	chosen(pod, Role(g, m.Role), m.Index)
	pod.Labels[v1alpha1.LabelGang] = g.Name
	pod.Labels[v1alpha1.LabelRole] = m.Role
	pod.Labels[v1alpha1.LabelIndex] = strconv.Itoa(int(m.Index))
	pod.Labels[v1alpha1.LabelAttempt] = strconv.Itoa(int(p.Spec.Attempt))
	if job := g.Labels[v1alpha1.LabelJob]; job != "" {
		pod.Labels[v1alpha1.LabelJob] = job
	}
	guard(pod, g)
	hold(pod, len(m.GPUs) > 0 || Several(g))
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

// chosen sets the labels that the user chose for a member. New sets Muster's own
// labels afterwards, so that the user cannot replace them.
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

// guard protects a member from eviction if other members of the gang need it: a
// PodDisruptionBudget of the namespace selects the label.
func guard(pod *corev1.Pod, g *v1alpha1.Gang) {
	delete(pod.Labels, v1alpha1.LabelGuarded)
	if !Several(g) {
		return
	}
	pod.Labels[v1alpha1.LabelGuarded] = "true"
}

// The annotations of Cluster Autoscaler and Karpenter that keep them from
// removing a node to reduce the number of nodes.
const (
	annotationSafeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	annotationDoNotDisrupt = "karpenter.sh/do-not-disrupt"
)

// hold asks autoscalers to keep the node of a member if its removal would lose
// work: the member has GPUs, or other members need it. Annotations of the
// template stay.
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

// Several reports whether a gang has more than one member.
func Several(g *v1alpha1.Gang) bool { return len(g.Spec.Roles) != 1 || g.Spec.Roles[0].Replicas != 1 }
