package conversion

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A pod outside a gang gets a claim for the single container that requests GPUs. With
// several such containers it gets none.
func TestWhoAsks(t *testing.T) {
	container := func(name, by string) corev1.Container {
		c := corev1.Container{Name: name}
		if by != "" {
			c.Resources.Limits = corev1.ResourceList{corev1.ResourceName(by): resource.MustParse("1")}
		}
		return c
	}
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want string
		only bool
	}{
		"one":                    {corev1.PodSpec{Containers: []corev1.Container{container("a", ""), container("b", "nvidia.com/gpu")}}, "b nvidia.com/gpu", true},
		"a part":                 {corev1.PodSpec{Containers: []corev1.Container{container("a", "muster.dev/gpu-memory")}}, "a muster.dev/gpu-memory", true},
		"no container":           {corev1.PodSpec{Containers: []corev1.Container{container("a", "")}}, " ", false},
		"several":                {corev1.PodSpec{Containers: []corev1.Container{container("a", "nvidia.com/gpu"), container("b", "nvidia.com/gpu")}}, "a nvidia.com/gpu", false},
		"an init container, too": {corev1.PodSpec{InitContainers: []corev1.Container{container("a", "nvidia.com/gpu")}, Containers: []corev1.Container{container("b", "nvidia.com/gpu")}}, "a nvidia.com/gpu", false},
	} {
		t.Run(name, func(t *testing.T) {
			who, by, only := GPUResources(nil).Asker(&c.spec)
			if got := who + " " + string(by); got != c.want || only != c.only {
				t.Errorf("%q, the only one: %t", got, only)
			}
		})
	}
}
