package gang

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// claimGPUs has a member's first container get its GPUs by a claim, on a node
// where a driver gives them: one that names its GPUs in ResourceSlices, not in
// an inventory. What the claim gives is written by its own controller, from what
// the pod's annotations say. Each pod has a claim of its own, also one that
// follows another under the same name.
func claimGPUs(pod *corev1.Pod, n *corev1.Node) {
	given := pod.Annotations[v1alpha1.AnnotationGPUs]
	s := &pod.Spec
	if n == nil || given == "" || strings.HasPrefix(given, v1alpha1.CountedGPU) || n.Annotations[v1alpha1.AnnotationInventory] != "" || len(s.Containers) == 0 {
		return
	}
	const longest, suffix = 253, 6
	name := pod.Name[:min(len(pod.Name), longest-suffix)] + "-" + rand.String(suffix-1)
	s.ResourceClaims = append(s.ResourceClaims, corev1.PodResourceClaim{Name: v1alpha1.GPUClaim, ResourceClaimName: &name})
	c := &s.Containers[0]
	c.Resources.Claims = append(c.Resources.Claims, corev1.ResourceClaim{Name: v1alpha1.GPUClaim})
}
