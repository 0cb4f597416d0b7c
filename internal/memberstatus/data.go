package memberstatus

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// NamesData reports whether a pod has volumes of data.
func NamesData(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.CSI != nil && v.CSI.Driver == v1alpha1.DataDriver })
}

// Data returns a pod's condition about its data; nil if the node reports none, for
// example because the data was on the node before the pod.
func Data(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == v1alpha1.ConditionPodData {
			return c
		}
	}
	return nil
}

// AwaitedData returns the condition about data that a pod still waits for; nil if it
// waits for none.
func AwaitedData(p *corev1.Pod) *corev1.PodCondition {
	if c := Data(p); c != nil && c.Status != corev1.ConditionTrue && (p.Status.Phase == corev1.PodPending || p.Status.Phase == "") {
		return c
	}
	return nil
}

// HopelessData reports whether a retry on the same node is useless.
func HopelessData(c *corev1.PodCondition) bool {
	return c != nil && (c.Reason == string(v1alpha1.DataUnfit) || c.Reason == string(v1alpha1.DataLost))
}

// DataText returns the message of the worst of the pods' waits for data, with the number
// of nodes that wait.
func DataText(waits []*corev1.Pod) string {
	if len(waits) == 0 {
		return ""
	}
	worst := slices.MinFunc(waits, func(a, b *corev1.Pod) int {
		return gravity(AwaitedData(b)) - gravity(AwaitedData(a))
	})
	nodes := map[string]bool{}
	for _, p := range waits {
		nodes[p.Spec.NodeName] = true
	}
	text := fmt.Sprintf("%s (node %s", AwaitedData(worst).Message, worst.Spec.NodeName)
	switch others := len(nodes) - 1; others {
	case 0:
	case 1:
		text += " and another"
	default:
		text += fmt.Sprintf(" and %d others", others)
	}
	return text + ")"
}

// gravity orders reasons of waits for data by severity.
func gravity(c *corev1.PodCondition) int {
	return slices.Index([]string{string(v1alpha1.DataFetching), string(v1alpha1.DataRetrying), string(v1alpha1.DataUnfit), string(v1alpha1.DataLost)}, c.Reason)
}
