package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/admission"
	"github.com/muster-dev/muster/internal/node/hostport"
)

func podWith(name, gpus string, port int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Annotations: map[string]string{v1alpha1.AnnotationGPUs: gpus}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{{ContainerPort: port}}}}},
	}
}

// TestLedger: a pod gets what it names unless it is refused, and a refusal because of a pod
// that ends comes with a channel that closes once that pod has released it.
func TestLedger(t *testing.T) {
	l := New()
	admit := func(gpu string, port int32) func(map[string]admission.Use, map[hostport.Port]string) *admission.Refusal {
		return func(gpus map[string]admission.Use, ports map[hostport.Port]string) *admission.Refusal {
			_, used := gpus[gpu]
			if holder := ports[hostport.Port{Protocol: corev1.ProtocolTCP, Number: port}]; holder != "" || used {
				return &admission.Refusal{Message: holder}
			}
			return nil
		}
	}
	a, b, c := podWith("a", "GPU-1", 80), podWith("b", "GPU-1", 81), podWith("c", "GPU-2", 80)
	for range 2 { // its own holdings do not count against a pod
		if refusal, _ := l.Take(a, true, admit("GPU-1", 80)); refusal != nil {
			t.Fatalf("nothing is held: %+v", refusal)
		}
	}
	if refusal, retry := l.Take(b, true, admit("GPU-1", 81)); refusal == nil || retry != nil {
		t.Errorf("a GPU of a pod that stays: %+v, retry %t", refusal, retry != nil)
	}
	l.End(a.UID)
	refusal, retry := l.Take(c, true, admit("GPU-2", 80))
	if diff := cmp.Diff(&admission.Refusal{Message: "pod default/a"}, refusal); diff != "" || retry == nil {
		t.Fatalf("a port of a pod that ends: %s, retry %t", diff, retry != nil)
	}
	if refusal, retry := l.Take(podWith("d", "GPU-3", 83), true, admit("GPU-1", 83)); refusal == nil || retry != nil {
		t.Errorf("nothing of a pod that ends: %+v, retry %t", refusal, retry != nil)
	}
	l.Release(a.UID)
	select {
	case <-retry:
	default:
		t.Error("the release is not told")
	}
	if refusal, _ := l.Take(b, true, admit("GPU-1", 81)); refusal != nil {
		t.Errorf("after the release: %+v", refusal)
	}
	if refusal, _ := l.Take(podWith("e", "GPU-4", 81), false, admit("GPU-4", 82)); refusal != nil {
		t.Errorf("a pod with a network of its own: %+v", refusal)
	}
	l.Quarantine("q", "default/q", []string{"GPU-5"}, admission.Share{})
	if refusal, _ := l.Take(podWith("f", "GPU-5", 85), true, admit("GPU-5", 85)); refusal == nil {
		t.Error("a quarantined GPU is given out")
	}
}
