package memberpod

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Resource is the resource name for requests of a node's GPUs: the first known
// resource that the node has, also while none of its GPUs is healthy.
func Resource(n *corev1.Node, known []corev1.ResourceName) corev1.ResourceName {
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

// WholeMilli is one GPU in thousandths.
const WholeMilli = 1000

// setRequest makes a member's first container ask for the role's GPUs, or for
// its part of one.
func setRequest(c *corev1.Container, role *v1alpha1.GangRole, gpus corev1.ResourceName) {
	share := role.GPUMemory != nil && role.GPUMemory.Sign() > 0
	if role.GPUs != nil && !role.GPUs.IsZero() {
		if milli := role.GPUs.MilliValue(); milli < WholeMilli {
			share = true
			ask(c, v1alpha1.ResourceGPUMilli, *resource.NewQuantity(milli, resource.DecimalSI))
		} else {
			ask(c, gpus, *role.GPUs)
		}
	}
	if share && role.GPUMemory != nil {
		ask(c, v1alpha1.ResourceGPUMemory, *role.GPUMemory)
	}
}

// ask sets the request and the limit of a resource. GPUs need both to be
// equal.
func ask(c *corev1.Container, name corev1.ResourceName, n resource.Quantity) {
	for _, list := range []*corev1.ResourceList{&c.Resources.Requests, &c.Resources.Limits} {
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = n
	}
}

// markShare writes the member's share of its GPU as an annotation.
func markShare(pod *corev1.Pod, m v1alpha1.PlacedMember) error {
	delete(pod.Annotations, v1alpha1.AnnotationGPUShare)
	if m.Share == nil {
		return nil
	}
	text, err := json.Marshal(m.Share)
	if err != nil {
		return err
	}
	pod.Annotations[v1alpha1.AnnotationGPUShare] = string(text)
	return nil
}

// GPUs is the number of GPUs of a pod; a share of one GPU is a fraction.
func GPUs(p *corev1.Pod) float64 {
	text := p.Annotations[v1alpha1.AnnotationGPUs]
	if text == "" {
		return 0
	}
	var share v1alpha1.GPUShare
	if json.Unmarshal([]byte(p.Annotations[v1alpha1.AnnotationGPUShare]), &share) == nil && share.Milli > 0 {
		return float64(share.Milli) / WholeMilli
	}
	return float64(len(strings.Split(text, ",")))
}

// Claim makes a member's first container get its GPUs by a ResourceClaim, on a
// node with a DRA driver: such a node lists its GPUs in ResourceSlices, not in
// an inventory. The claim controller writes the allocation of the claim, from
// the pod's annotations. Each pod has a claim of its own, also a pod that
// replaces another pod of the same name.
func Claim(pod *corev1.Pod, n *corev1.Node) {
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
