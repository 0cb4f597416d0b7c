package node

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// withShare gives a pod a part of a GPU.
func withShare(uuid string, milli int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations[v1alpha1.AnnotationGPUs] = uuid
		p.Annotations[v1alpha1.AnnotationGPUShare] = fmt.Sprintf(`{"milli":%d,"memoryMiB":%d}`, milli, milli*40)
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{v1alpha1.ResourceGPUMilli: *resource.NewQuantity(milli, resource.DecimalSI)}
	}
}

// TestSharesRunSideBySide: two pods have parts of one GPU at the same time; what
// is too much is refused, also by the node that comes after this one.
func TestSharesRunSideBySide(t *testing.T) {
	source := simulated(t, "1xA100:40Gi")
	w := newWorld(t, func(c *Config) { c.GPUs = source })
	uuid := w.inventoryOf().GPUs[0].UUID
	script, gpus, end := holdsGPUs(t)
	w.create(newPod("one", script).with(withShare(uuid, 600)))
	pod := w.await("one", "run", inPhase(corev1.PodRunning))
	if got := gpus.Hear(); !strings.Contains(got, uuid) {
		t.Errorf("the pod sees %q", got)
	}
	said := condition(pod, v1alpha1.ConditionGPUShare)
	if said == nil || said.Status != corev1.ConditionFalse || said.Message != "600m (24000 MiB), not enforced: the GPU is simulated" {
		t.Errorf("the node says %+v", said)
	}
	w.create(newPod("two", "exit 0").with(withShare(uuid, 400)))
	if pod := w.await("two", "end", ended); pod.Status.Phase != corev1.PodSucceeded {
		t.Errorf("beside the first: %s", pod.Status.Message)
	}
	refused := func(name string, edit func(*corev1.Pod)) {
		t.Helper()
		w.create(newPod(name, "exit 0").with(edit).member())
		if pod := w.await(name, "end", ended); pod.Status.Reason != v1alpha1.ReasonRefused || !strings.Contains(pod.Status.Message, "default/one") {
			t.Errorf("%s: %s: %s", name, pod.Status.Reason, pod.Status.Message)
		}
	}
	refused("more", withShare(uuid, 401))
	refused("whole", withGPUs(uuid))
	w.stop()
	w.start()
	refused("more-later", withShare(uuid, 401))
	end.Open()
	pod = w.await("one", "end", ended)
	if said := condition(pod, v1alpha1.ConditionGPUShare); said == nil || !strings.HasPrefix(said.Message, "600m") {
		t.Errorf("the node after it says %+v", said)
	}
}
