package departure_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/internal/departure"
)

func TestSilence(t *testing.T) {
	since := time.Date(2026, 5, 4, 9, 39, 0, 0, time.UTC)
	clock := func(at time.Time) string { return at.Format("15:04") }
	for name, tt := range map[string]struct {
		conditions []corev1.NodeCondition
		want       string
	}{
		"it answers":            {conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		"it has said nothing":   {},
		"another condition":     {conditions: []corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionUnknown}}},
		"it does not answer":    {conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(since), Message: "Kubelet stopped posting node status."}}, want: "has not answered since 09:39"},
		"it says why":           {conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(since), Message: "no network"}}, want: "is not ready since 09:39 (no network)"},
		"it is not ready, only": {conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(since)}}, want: "is not ready since 09:39"},
	} {
		s, is := departure.Silent(&corev1.Node{Status: corev1.NodeStatus{Conditions: tt.conditions}})
		if is != (tt.want != "") || is && s.Words(clock) != tt.want {
			t.Errorf("%s: %t, %q", name, is, s.Words(clock))
		}
	}
}
