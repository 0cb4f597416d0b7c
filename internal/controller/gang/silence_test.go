package gang

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/departure"
)

// The status names a node that does not answer. An attempt ends only if the node never took a
// member.
func TestNodeThatDoesNotAnswer(t *testing.T) {
	since := time.Date(2026, 5, 4, 13, 0, 0, 0, time.UTC)
	silent := stands{there: true, silent: true, silence: departure.Silence{Since: since, Unknown: true}}
	taken := metav1.NewTime(since.Add(-time.Minute))
	for name, tt := range map[string]struct {
		at     stands
		phase  v1alpha1.GangPhase
		status corev1.PodStatus
		after  time.Duration
		// phases and words are those of the decided status; forced is whether the member's pod is deleted
		// without waiting for its node.
		want   v1alpha1.GangPhase
		reason string
		words  string
		forced bool
	}{
		"it has just fallen silent": {
			at: silent, phase: v1alpha1.GangStarting, status: corev1.PodStatus{Phase: corev1.PodPending}, after: 30 * time.Second,
			want: v1alpha1.GangStarting, reason: v1alpha1.ReasonNodeUnreachable, words: "it waits for node there, which has not answered since 13:00",
		},
		"it never took the member": {
			at: silent, phase: v1alpha1.GangStarting, status: corev1.PodStatus{Phase: corev1.PodPending}, after: time.Minute,
			want: v1alpha1.GangDraining, reason: v1alpha1.ReasonNodeUnreachable, words: "node there, to which worker-1 was given, has not answered since 13:00; the scheduler looks for another place", forced: true,
		},
		"it took the member": {
			at: silent, phase: v1alpha1.GangStarting, status: corev1.PodStatus{Phase: corev1.PodPending, StartTime: &taken}, after: 2 * time.Minute,
			want: v1alpha1.GangStarting, reason: v1alpha1.ReasonNodeUnreachable, words: "it waits for node there, which has not answered since 13:00",
		},
		"it runs the member": {
			at: silent, phase: v1alpha1.GangRunning, status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &taken}, after: time.Hour,
			want: v1alpha1.GangRunning, reason: v1alpha1.ReasonNodeUnreachable, words: "node there, which runs worker-1, has not answered since 13:00",
		},
		"it answers again": {
			at: stands{there: true}, phase: v1alpha1.GangRunning, status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &taken}, after: time.Hour,
			want: v1alpha1.GangRunning,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := leaving(tt.at,
				memberPod("0", "here", corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &taken}, false), memberPod("1", "there", tt.status, false))
			for _, p := range o.pods {
				p.CreationTimestamp = metav1.NewTime(since)
			}
			o.now, o.location = since.Add(tt.after), time.UTC
			o.gang.Status.Phase, o.gang.Status.Reason, o.gang.Status.Message = tt.phase, v1alpha1.ReasonNodeUnreachable, "as before"
			d := decide(o)
			if s := d.status; s.Phase != tt.want || s.Reason != tt.reason || s.Message != tt.words {
				t.Errorf("%s, %s: %q", s.Phase, s.Reason, s.Message)
			}
			if d.status.StartTimeouts != 0 || d.status.Refusals != 0 || d.status.Restarts != 0 {
				t.Errorf("it counts as a failure: %+v", d.status)
			}
			for _, p := range d.remove {
				seconds := d.notice(p)
				if forced := seconds != nil && *seconds == 0; forced != (tt.forced && p.Spec.NodeName == "there") {
					t.Errorf("%s is forced: %t", p.Name, forced)
				}
			}
			if tt.forced && len(d.remove) != 2 {
				t.Errorf("%d pods are removed", len(d.remove))
			}
		})
	}
}
