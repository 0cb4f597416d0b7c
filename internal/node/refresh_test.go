package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRefreshIsDueOnlyWhereItHappens: a moment that has passed and to which
// nothing is done would wake the worker again and again, for as long as the
// ended pod is there.
func TestRefreshIsDueOnlyWhereItHappens(t *testing.T) {
	past := time.Unix(1_000, 0)
	tests := []struct {
		name string
		edit func(w *worker)
		want time.Time
	}{
		{"while it runs", func(*worker) {}, past},
		{"while one is under way", func(w *worker) { w.preparing = func() {} }, time.Time{}},
		{"after it succeeded", func(w *worker) { w.outcome = corev1.PodSucceeded }, time.Time{}},
		{"once all is told", func(w *worker) { w.settled = true }, time.Time{}},
		{"when it is deleted", func(w *worker) { w.pod.DeletionTimestamp = &metav1.Time{Time: past} }, time.Time{}},
		{"when it is gone", func(w *worker) { w.gone = true }, time.Time{}},
		{"when it failed as a whole", func(w *worker) { w.reason = reasonDeadline }, time.Time{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := &worker{pod: &corev1.Pod{}, refreshAt: past}
			tt.edit(w)
			if got := w.refreshDue(); !got.Equal(tt.want) {
				t.Errorf("due %v, want %v", got, tt.want)
			}
		})
	}
}
