package conversion

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Asker returns the first container of a pod that requests GPUs, and its resource. Only
// reports whether it is the single one.
func (g GPUResources) Asker(spec *corev1.PodSpec) (container string, by corev1.ResourceName, only bool) {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			if name := g.asks(&list[i]); name != "" && container == "" {
				container, by = list[i].Name, name
			}
		}
	}
	return container, by, len(g.Askers(spec)) == 1
}

// Askers returns the containers of a pod that request GPUs, with init containers and
// sidecars.
func (g GPUResources) Askers(spec *corev1.PodSpec) []string {
	var out []string
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			if g.asks(&list[i]) != "" {
				out = append(out, list[i].Name)
			}
		}
	}
	return out
}

// asks returns the resource by which a container requests GPUs; empty if it requests none.
func (g GPUResources) asks(c *corev1.Container) corev1.ResourceName {
	asked := containerRequests(c)
	for _, name := range append(slices.Clone(g.names()), v1alpha1.ResourceGPUMilli, v1alpha1.ResourceGPUMemory) {
		if q := asked[name]; q.Sign() > 0 {
			return name
		}
	}
	return ""
}
