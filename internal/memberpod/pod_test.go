package memberpod

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// Autoscalers may remove the node of a member if a restart of the member loses
// no work, or if its template allows it.
func TestWhomAutoscalersLeaveAlone(t *testing.T) {
	for name, c := range map[string]struct {
		costs bool
		says  map[string]string
		want  map[string]string
	}{
		"it has GPUs":          {true, map[string]string{}, map[string]string{annotationSafeToEvict: "false", annotationDoNotDisrupt: "true"}},
		"its template says so": {true, map[string]string{annotationSafeToEvict: "true"}, map[string]string{annotationSafeToEvict: "true", annotationDoNotDisrupt: "true"}},
		"alone, without a GPU": {false, map[string]string{}, map[string]string{}},
	} {
		pod := &corev1.Pod{}
		pod.Annotations = c.says
		hold(pod, c.costs)
		if diff := cmp.Diff(c.want, pod.Annotations); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
