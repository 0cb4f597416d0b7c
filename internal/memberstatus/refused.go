package memberstatus

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/startup"
)

// NotTaken reports whether a node refused a pod for a reason that may end, or that does
// not apply to other nodes.
func NotTaken(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed && p.Status.Reason == v1alpha1.ReasonRefused || startup.Refused(p) || Unclaimed(p)
}

// Unclaimed reports whether the API server did not accept a pod's claim of GPUs.
func Unclaimed(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed && p.Status.Reason == v1alpha1.ReasonUnclaimed
}

// NeverRan reports whether a node refused a pod, for now or for good.
func NeverRan(p *corev1.Pod) bool {
	return NotTaken(p) || p.Status.Phase == corev1.PodFailed && p.Status.Reason == v1alpha1.ReasonUnsupported
}
