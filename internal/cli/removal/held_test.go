package removal

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

func TestHeld(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	job := func(finalizers ...string) *v1alpha1.TrainingJob {
		return &v1alpha1.TrainingJob{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mnist", UID: "a", Finalizers: finalizers}}
	}
	ending := func(index, node string) *corev1.Pod {
		pod := memberPod(index, "GPU-a", corev1.PodRunning)
		pod.Spec.NodeName = node
		pod.Finalizers = []string{"test/keep"}
		now := metav1.NewTime(time.Unix(1000, 0))
		pod.DeletionTimestamp = &now
		return pod
	}
	for name, c := range map[string]struct {
		there []client.Object
		idle  bool
		want  string
	}{
		"nothing left":    {nil, true, ""},
		"no manager":      {[]client.Object{memberPod("0", "GPU-a", corev1.PodRunning)}, true, "no manager of Muster runs, so worker-0 (1 GPU) cannot end."},
		"a slow manager":  {[]client.Object{memberPod("0", "GPU-a", corev1.PodRunning)}, false, "the manager has not yet told worker-0 to end"},
		"a silent node":   {[]client.Object{ending("0", "one"), ending("1", "two"), node("one", corev1.ConditionTrue), node("two", corev1.ConditionUnknown)}, false, "worker-0, worker-1 on one, two have not ended: node two does not answer"},
		"a node works":    {[]client.Object{ending("0", "one"), node("one", corev1.ConditionTrue)}, false, "worker-0 on one has not ended: the node waits for their processes"},
		"a node is gone":  {[]client.Object{ending("0", "one")}, false, "node one does not answer"},
		"object":          {[]client.Object{job("example.com/x")}, false, "finalizers example.com/x"},
		"object, idle":    {[]client.Object{job()}, true, "it goes once a manager runs"},
		"object, manager": {[]client.Object{job()}, false, "goes without this command"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Held(t.Context(), world(t, c.there...), job(), c.idle)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("%q does not contain %q", got, c.want)
			}
		})
	}
}
