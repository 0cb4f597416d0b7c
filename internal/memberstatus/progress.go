package memberstatus

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Progress returns the progress of a pod as its node reports it. It returns false
// without a report.
func Progress(p *corev1.Pod) (v1alpha1.PodProgress, bool) {
	for i := range p.Status.Conditions {
		var r v1alpha1.PodProgress
		if c := &p.Status.Conditions[i]; c.Type == v1alpha1.ConditionPodProgress && json.Unmarshal([]byte(c.Message), &r) == nil {
			if d := r.DoneMillionths; d != nil && (*d < 0 || *d > v1alpha1.Whole) {
				r.DoneMillionths = nil
			}
			return r, true
		}
	}
	return v1alpha1.PodProgress{}, false
}
