package conversion

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
)

func TestRequests(t *testing.T) {
	cpu := func(s string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(s)}}
	}
	always := corev1.ContainerRestartPolicyAlways
	spec := &corev1.PodSpec{
		InitContainers: []corev1.Container{
			{Name: "sidecar", Resources: cpu("1"), RestartPolicy: &always},
			{Name: "init", Resources: cpu("5")},
		},
		Containers: []corev1.Container{
			{Name: "a", Resources: cpu("2")},
			{Name: "b", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{v1alpha1.ResourceGPU: resource.MustParse("3")}}},
		},
		Overhead: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
	}
	got, gpus := GPUResources(nil).Requests(spec)
	if got.MilliCPU != 6100 || gpus != 3 || got.Pods != 1 {
		t.Errorf("%+v and %d GPUs; the init container beside the sidecar needs the most", got, gpus)
	}
}
