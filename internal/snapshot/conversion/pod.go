package conversion

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
)

// Instant converts a time.
func Instant(t time.Time) scheduling.Instant {
	if t.IsZero() {
		return 0
	}
	return scheduling.Instant(t.UnixNano())
}

// GangOf returns the UID of the gang that made a pod.
func GangOf(p *corev1.Pod) types.UID {
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil && owner.Kind == "Gang" {
		return owner.UID
	}
	return ""
}

// Pod converts a pod on a node. Shared reports whether the pod shares the node's network.
func (g GPUResources) Pod(p *corev1.Pod, shared bool) scheduling.Pod {
	res, gpus := g.Requests(&p.Spec)
	named, share := Words(p.Annotations[v1alpha1.AnnotationGPUs]), ShareOf(p)
	since := p.CreationTimestamp.Time
	if p.Status.StartTime != nil {
		since = p.Status.StartTime.Time
	}
	ports := hostPorts(&p.Spec)
	if shared {
		ports = containerPorts(&p.Spec)
	}
	return scheduling.Pod{
		Key: scheduling.Key{Namespace: p.Namespace, Name: p.Name}, UID: string(p.UID),
		Gang: string(GangOf(p)), Role: p.Labels[v1alpha1.LabelRole], Index: MemberIndex(p.Labels[v1alpha1.LabelIndex]),
		Node: p.Spec.NodeName, Since: Instant(since), GPUs: named, Share: share, Loose: max(0, gpus-int32(len(named))),
		Ports: ports, Resources: res, Ended: Ended(p),
	}
}

// MemberIndex parses the index label of a member; -1 if it is not a number.
func MemberIndex(text string) int32 {
	var n int32
	for _, c := range text {
		if c < '0' || c > '9' || n > 1<<20 {
			return -1
		}
		n = n*10 + (c - '0')
	}
	return n
}
