package memberpod

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// A member names a claim where a driver gives GPUs, and nowhere else.
func TestClaimGPUs(t *testing.T) {
	plain := &corev1.Node{}
	tells := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationInventory: "{}"}}}
	for name, c := range map[string]struct {
		node  *corev1.Node
		given string
		want  bool
	}{
		"named by a driver":      {plain, "GPU-a,GPU-b", true},
		"counted":                {plain, "counted-0", false},
		"named by an inventory":  {tells, "GPU-a", false},
		"without GPUs":           {plain, "", false},
		"on a node that is gone": {nil, "GPU-a", false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "train-worker-0", Annotations: map[string]string{v1alpha1.AnnotationGPUs: c.given}}}
			pod.Spec.Containers = []corev1.Container{{Name: "main"}, {Name: "side"}}
			again := pod.DeepCopy()
			Claim(pod, c.node)
			Claim(again, c.node)
			if got := len(pod.Spec.ResourceClaims) == 1; got != c.want {
				t.Fatalf("it names %d claims", len(pod.Spec.ResourceClaims))
			}
			if !c.want {
				return
			}
			name, other := *pod.Spec.ResourceClaims[0].ResourceClaimName, *again.Spec.ResourceClaims[0].ResourceClaimName
			if !strings.HasPrefix(name, "train-worker-0-") || name == other {
				t.Errorf("the claims of two pods of one member are named %s and %s", name, other)
			}
			if len(pod.Spec.Containers[0].Resources.Claims) != 1 || len(pod.Spec.Containers[1].Resources.Claims) != 0 {
				t.Error("the first container alone gets the GPUs")
			}
		})
	}
}
