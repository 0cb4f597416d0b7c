package run

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

func TestGPUAdvice(t *testing.T) {
	node := func(inventory string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationInventory: inventory}}}
	}
	one, none := resource.MustParse("1"), resource.MustParse("0")
	for _, c := range []struct {
		name  string
		gpus  *resource.Quantity
		nodes []corev1.Node
		want  []string
	}{
		{"one machine without GPUs", &one, []corev1.Node{node("{}")}, []string{"this machine has none", "without --gpus", "--simulate-gpus 8xA100", "muster delete mnist"}},
		{"several", &one, []corev1.Node{node("{}"), node("{}")}, []string{"none of the 2 nodes has any"}},
		{"one of two has a GPU", &one, []corev1.Node{node("{}"), node(`{"gpus":[{"uuid":"GPU-a"}]}`)}, nil},
		{"a node that does not tell", &one, []corev1.Node{node("")}, nil},
		{"no nodes yet", &one, nil, nil},
		{"no GPU asked for", nil, []corev1.Node{node("{}")}, nil},
		{"none asked for", &none, []corev1.Node{node("{}")}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Name: "mnist"}}
			job.Spec.Roles = []v1alpha1.Role{{Name: "worker", GPUs: c.gpus}}
			got := gpuAdvice(job, c.nodes)
			if (got == "") != (c.want == nil) {
				t.Errorf("advice %q", got)
			}
			for _, words := range c.want {
				if !strings.Contains(got, words) {
					t.Errorf("advice %q does not say %q", got, words)
				}
			}
		})
	}
}
