package admission

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/inventory"
)

// gpus checks that the pod names as many GPUs as it asks for, and that they
// are here and free.
func (c *check) gpus() {
	const field = "metadata.annotations[" + v1alpha1.AnnotationGPUs + "]"
	named := GPUs(c.pod)
	wanted := wantedGPUs(c.pod)
	if ShareOf(c.pod) != (Share{}) {
		wanted = 1
	}
	if int64(len(named)) != wanted {
		c.refuse(field, "names %d GPUs and the pod asks for %d by %s. The scheduler writes the annotation: "+
			"leave nodeName empty and set schedulerName: %s", len(named), wanted, v1alpha1.ResourceGPU, v1alpha1.SchedulerName)
	}
	seen := map[string]bool{}
	for _, uuid := range named {
		gpu, here := c.facts.GPUs[uuid]
		switch {
		case seen[uuid]:
			c.refuse(field, "names GPU %s twice", uuid)
		case !here:
			c.refuseHere(field, "this node has no GPU %s; it has %s", uuid, orNone(slices.Sorted(maps.Keys(c.facts.GPUs))))
		case gpu.Unhealthy != "":
			c.refuseHere(field, "GPU %s must not be used: %s", uuid, gpu.Unhealthy)
		default:
			c.freeGPU(field, uuid, gpu)
		}
		seen[uuid] = true
	}
}

func orNone(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return join(words)
}

// GPUs are the UUIDs that the scheduler gave a pod.
func GPUs(pod *corev1.Pod) []string {
	return strings.FieldsFunc(pod.Annotations[v1alpha1.AnnotationGPUs], func(r rune) bool { return r == ',' || r == ' ' })
}

// GPUsAlone reports whether a pod's containers can open no GPUs but those that they are
// given, if they have the device files of these only. Get reads a variable of the
// container, wherever its value comes from.
func GPUsAlone(pod *corev1.Pod, get func(name string) (value string, ok bool)) bool {
	_, mps := get(inventory.MPSVariable)
	return !mps && inventory.Alone(&pod.Spec)
}

// Assign divides a pod's GPUs among its containers: ordinary containers in
// order, each as many as its limit. Init containers run before the others and
// take theirs from the front; sidecars take theirs as ordinary containers do.
// A part of a GPU is the one container's that asks for it.
func Assign(pod *corev1.Pod) map[string][]string {
	named, out := GPUs(pod), map[string][]string{}
	if ShareOf(pod) != (Share{}) {
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				if asksForShare(&list[i]) {
					out[list[i].Name] = named
				}
			}
		}
		return out
	}
	take := func(from []string, ctr *corev1.Container) []string {
		n := min(int(limitGPUs(ctr)), len(from))
		if n > 0 {
			out[ctr.Name] = from[:n]
		}
		return from[n:]
	}
	rest := named
	for i := range pod.Spec.InitContainers {
		if ctr := &pod.Spec.InitContainers[i]; sidecar(ctr) {
			rest = take(rest, ctr)
		} else {
			take(rest, ctr)
		}
	}
	for i := range pod.Spec.Containers {
		rest = take(rest, &pod.Spec.Containers[i])
	}
	return out
}

// wantedGPUs is how many GPUs a pod needs at once.
func wantedGPUs(pod *corev1.Pod) int64 {
	var sidecars, peak int64
	for i := range pod.Spec.InitContainers {
		ctr := &pod.Spec.InitContainers[i]
		peak = max(peak, sidecars+limitGPUs(ctr))
		if sidecar(ctr) {
			sidecars += limitGPUs(ctr)
		}
	}
	total := sidecars
	for i := range pod.Spec.Containers {
		total += limitGPUs(&pod.Spec.Containers[i])
	}
	return max(total, peak)
}

func sidecar(ctr *corev1.Container) bool {
	return ctr.RestartPolicy != nil && *ctr.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func limitGPUs(ctr *corev1.Container) int64 {
	q, ok := ctr.Resources.Limits[v1alpha1.ResourceGPU]
	if !ok {
		return 0
	}
	return max(q.Value(), 0)
}

func sortedNames(list map[corev1.ResourceName]resource.Quantity) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}
