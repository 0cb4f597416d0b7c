package list

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/node/stock"
)

// TestNotes: the note of a cordoned or drained node has the command that ends that.
func TestNotes(t *testing.T) {
	drained := []corev1.Taint{{Key: v1alpha1.TaintDrain, Effect: corev1.TaintEffectNoSchedule}}
	for name, c := range map[string]struct {
		spec     corev1.NodeSpec
		notReady string
		want     string
	}{
		"usual":                  {},
		"cordoned":               {spec: corev1.NodeSpec{Unschedulable: true}, want: "cordoned, nothing new comes: `kubectl uncordon gpu-1`"},
		"drained":                {spec: corev1.NodeSpec{Unschedulable: true, Taints: drained}, want: "drained: `muster node drain gpu-1 --undo` lets work run there again"},
		"cordoned and not ready": {spec: corev1.NodeSpec{Unschedulable: true}, notReady: "no answer", want: "not ready: no answer; cordoned, nothing new comes: `kubectl uncordon gpu-1`"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &stock.Node{Object: corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpu-1"}, Spec: c.spec}, Owned: true, GPUs: 2, NotReady: c.notReady}
			if r := rowOf(n); r.note() != c.want || r.Cordoned != c.spec.Unschedulable {
				t.Errorf("%+v: %q, want %q", r, r.note(), c.want)
			}
		})
	}
}
