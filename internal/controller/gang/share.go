package gang

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// wholeMilli is one GPU in thousandths.
const wholeMilli = 1000

// setRequest makes a member's first container ask for the role's GPUs, or for
// its part of one.
func setRequest(c *corev1.Container, role *v1alpha1.GangRole, gpus corev1.ResourceName) {
	share := role.GPUMemory != nil && role.GPUMemory.Sign() > 0
	if role.GPUs != nil && !role.GPUs.IsZero() {
		if milli := role.GPUs.MilliValue(); milli < wholeMilli {
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

// ask sets the request and the limit of a resource, which for GPUs are the
// same.
func ask(c *corev1.Container, name corev1.ResourceName, n resource.Quantity) {
	for _, list := range []*corev1.ResourceList{&c.Resources.Requests, &c.Resources.Limits} {
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = n
	}
}

// markShare writes how much the member was given of its GPU.
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

// gpusOf is how many GPUs a pod was given; a part of one is that part.
func gpusOf(p *corev1.Pod) float64 {
	text := p.Annotations[v1alpha1.AnnotationGPUs]
	if text == "" {
		return 0
	}
	var share v1alpha1.GPUShare
	if json.Unmarshal([]byte(p.Annotations[v1alpha1.AnnotationGPUShare]), &share) == nil && share.Milli > 0 {
		return float64(share.Milli) / wholeMilli
	}
	return float64(len(strings.Split(text, ",")))
}

// shareText is what the nodes say of the shares of a role's members, each
// sentence once.
func shareText(pods []*corev1.Pod, role string) string {
	var said []string
	for _, p := range pods {
		if p.Labels[v1alpha1.LabelRole] != role {
			continue
		}
		for _, c := range p.Status.Conditions {
			if c.Type == v1alpha1.ConditionGPUShare && c.Message != "" && !slices.Contains(said, c.Message) {
				said = append(said, c.Message)
			}
		}
	}
	slices.Sort(said)
	return strings.Join(said, "; ")
}
