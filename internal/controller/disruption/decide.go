package disruption

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/departure"
)

// open reports whether what runs on a node may be evicted: nothing new comes
// there, or it is about to go.
func open(n *corev1.Node, signs departure.Signs) bool {
	_, leaves := signs.Of(n)
	return leaves || n.Spec.Unschedulable
}

// guards reports whether members of a gang are guarded: one alone is the whole
// gang, and to evict it tears nothing.
func guards(g *v1alpha1.Gang) bool {
	members := int32(0)
	for i := range g.Spec.Roles {
		members += g.Spec.Roles[i].Replicas
	}
	return members > 1
}

// relabel is whether the label of a pod is wrong, and what it should be: guarded
// or not.
func relabel(p *corev1.Pod, open, guarded bool) (wrong, want bool) {
	want = guarded && !open
	has := p.Labels[v1alpha1.LabelGuarded] == "true"
	ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	return has != want && !ended && p.DeletionTimestamp == nil, want
}

// budget is the PodDisruptionBudget of a namespace.
func budget(namespace string) *policyv1.PodDisruptionBudget {
	all := intstr.FromInt32(math.MaxInt32)
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: v1alpha1.GuardBudget,
			Labels: map[string]string{"app.kubernetes.io/part-of": "muster", v1alpha1.LabelGuarded: "true"},
		},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &all,
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelGuarded: "true"}},
		},
	}
}
