package scaling

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// image is what a placeholder names as its image. Nothing ever pulls it.
const image = "muster.dev/placeholder"

// annotationFor says for which gang a placeholder asks, as namespace/name.
const annotationFor = "muster.dev/for"

func nameOf(role string, index int32) string { return fmt.Sprintf("%s-%d", role, index) }

// placeholder is the pod that asks for a node for one member, in a namespace
// that enforces whatever it likes: it asks for no rights.
func placeholder(g *v1alpha1.Gang, m member, namespace, class string, by way) *corev1.Pod {
	from := m.role.Template.Spec.DeepCopy()
	no, yes, zero, user := false, true, int64(0), int64(65532)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "for-" + string(g.UID) + "-" + nameOf(m.role.Name, m.index),
			Labels: map[string]string{v1alpha1.LabelPlaceholder: string(g.UID), v1alpha1.LabelRole: m.role.Name},
			Annotations: map[string]string{
				annotationFor: g.Namespace + "/" + g.Name,
				// It is not there to be kept.
				"cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
			},
		},
		Spec: corev1.PodSpec{
			SchedulerName: v1alpha1.SchedulerName, PriorityClassName: class, RestartPolicy: corev1.RestartPolicyNever,
			AutomountServiceAccountToken: &no, EnableServiceLinks: &no, TerminationGracePeriodSeconds: &zero,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsUser: &user, RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			NodeSelector: from.NodeSelector, Affinity: affinity(from.Affinity, m.role.GPUModels),
			Tolerations: append(from.Tolerations, corev1.Toleration{Key: v1alpha1.TaintOwned, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}),
		},
	}
	for i := range from.InitContainers {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, hull(&from.InitContainers[i]))
	}
	for i := range from.Containers {
		pod.Spec.Containers = append(pod.Spec.Containers, hull(&from.Containers[i]))
	}
	if q := m.role.GPUs; q != nil && len(pod.Spec.Containers) > 0 {
		ask(pod, by, *q)
	}
	return pod
}

// hull is a container that asks for what another asks for, and for nothing else.
func hull(c *corev1.Container) corev1.Container {
	no := false
	return corev1.Container{
		Name: c.Name, Image: image, RestartPolicy: c.RestartPolicy,
		Resources: corev1.ResourceRequirements{Requests: c.Resources.Requests, Limits: c.Resources.Limits},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// ask sets how many GPUs a pod asks for, in its first container.
func ask(pod *corev1.Pod, by way, n resource.Quantity) {
	r := &pod.Spec.Containers[0].Resources
	if by.class != "" {
		if n.Sign() > 0 {
			template := claimTemplate("", by.class, n.Value()).Name
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: claimName, ResourceClaimTemplateName: &template}}
			r.Claims = []corev1.ResourceClaim{{Name: claimName}}
		}
		return
	}
	gpu := by.resource
	for _, list := range []*corev1.ResourceList{&r.Requests, &r.Limits} {
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		delete(*list, gpu)
		if n.Sign() > 0 {
			(*list)[gpu] = n
		}
	}
}

// affinity is a role's own for nodes, beside the labels by which nodes say which
// GPUs they have: one of the models, by either label. What it says about other
// pods is about members, not about placeholders.
func affinity(own *corev1.Affinity, models []string) *corev1.Affinity {
	var required *corev1.NodeSelector
	if own != nil && own.NodeAffinity != nil {
		required = own.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	var labels []corev1.NodeSelectorRequirement
	if len(models) > 0 {
		for _, key := range []string{v1alpha1.LabelModel, v1alpha1.LabelGPUModel} {
			labels = append(labels, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: models})
		}
	}
	switch {
	case required == nil && labels == nil:
		return nil
	case labels == nil:
	case required == nil:
		required = &corev1.NodeSelector{}
		for _, label := range labels {
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{label}})
		}
	default:
		both := &corev1.NodeSelector{}
		for _, term := range required.NodeSelectorTerms {
			for _, label := range labels {
				one := term.DeepCopy()
				one.MatchExpressions = append(one.MatchExpressions, label)
				both.NodeSelectorTerms = append(both.NodeSelectorTerms, *one)
			}
		}
		required = both
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
}
