package startup

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
)

// disruption is the condition DisruptionTarget of a pod, if it is true; nil if there is
// none.
func disruption(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// Disrupted reports whether the cluster ended a member, or is about to: by the
// Eviction API, because its node does not answer or is no more, or because the
// machine shuts down. A kubelet that is short of memory or disk is not meant:
// that may be the member's own doing, and happen again for ever.
func Disrupted(p *corev1.Pod) bool {
	c := disruption(p)
	if c == nil || p.Status.Phase == corev1.PodSucceeded && p.DeletionTimestamp == nil {
		return false
	}
	switch c.Reason {
	case "EvictionByEvictionAPI", "DeletionByTaintManager", "DeletionByPodGC":
		return p.DeletionTimestamp != nil
	case corev1.PodReasonTerminationByKubelet:
		return p.Status.Reason == "Terminated" || p.Status.Reason == "NodeShutdown"
	}
	return false
}

// DisruptionWords returns a phrase with the cause of a member's end, to be added to a sentence
// about that.
func DisruptionWords(p *corev1.Pod) string {
	switch c := disruption(p); c.Reason {
	case "EvictionByEvictionAPI":
		return ": it was evicted, as a drain does"
	case "DeletionByTaintManager":
		return ": it has a taint that ends what runs there"
	case corev1.PodReasonTerminationByKubelet:
		return ": the machine shuts down"
	default:
		return " (" + cmp.Or(c.Message, c.Reason) + ")"
	}
}
