package device

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

func node(inventory string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "box"}}
	if inventory != "" {
		n.Annotations = map[string]string{v1alpha1.AnnotationInventory: inventory}
	}
	return n
}

func pod(name, on, gpus string, phase corev1.PodPhase) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: name, Annotations: map[string]string{v1alpha1.AnnotationGPUs: gpus}},
		Spec:       corev1.PodSpec{NodeName: on},
		Status:     corev1.PodStatus{Phase: phase},
	}
}

func TestGone(t *testing.T) {
	worker := pod("mnist-worker-0", "box", "GPU-c,GPU-a,GPU-b", corev1.PodRunning)
	worker.Labels = map[string]string{v1alpha1.LabelJob: "mnist", v1alpha1.LabelRole: "worker", v1alpha1.LabelIndex: "0"}
	for _, c := range []struct {
		name, inventory string
		pods            []corev1.Pod
		want            []string
	}{
		{"everything is there", `{"gpus":[{"uuid":"GPU-a"},{"uuid":"GPU-b"},{"uuid":"GPU-c"}]}`, []corev1.Pod{worker}, nil},
		{"two are gone", `{"gpus":[{"uuid":"GPU-a"}]}`, []corev1.Pod{worker},
			[]string{"2 GPUs that vision/mnist worker-0 holds are no longer there (GPU-b, GPU-c)"}},
		{"of two pods", `{}`, []corev1.Pod{pod("z", "box", "GPU-y", corev1.PodPending), pod("a", "box", "GPU-z", corev1.PodRunning)},
			[]string{"1 GPU that vision/a holds is no longer there (GPU-z)", "1 GPU that vision/z holds is no longer there (GPU-y)"}},
		{"pods that ended or are elsewhere", `{}`, []corev1.Pod{pod("a", "box", "GPU-a", corev1.PodFailed), pod("b", "other", "GPU-b", corev1.PodRunning)}, nil},
		{"a node that tells nothing", "", []corev1.Pod{worker}, nil},
		{"a node that tells nonsense", "[", []corev1.Pod{worker}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Words(GoneFrom(node(c.inventory), c.pods))); diff != "" {
				t.Errorf("words (-want +got):\n%s", diff)
			}
		})
	}
}
