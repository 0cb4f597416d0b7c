package snapshot

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
	"github.com/muster-dev/muster/internal/snapshot/dryrun"
)

// TestWhoHolds: when a placed member's GPU is free again.
func TestWhoHolds(t *testing.T) {
	now := metav1.Now()
	tests := []struct {
		name string
		pod  func(*corev1.Pod)
		gang func(*v1alpha1.Gang)
		// free is true if the GPU may be given to someone else.
		free bool
	}{
		{name: "no pod yet"},
		{name: "running", pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }},
		{name: "being deleted", pod: func(p *corev1.Pod) { p.Status.Phase, p.DeletionTimestamp = corev1.PodRunning, &now }},
		{name: "succeeded", pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, free: true},
		{name: "done and its pod gone", gang: func(g *v1alpha1.Gang) { g.Status.Done = []string{"worker-0"} }, free: true},
		{name: "failed: it is started again in the same place", pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }},
		{name: "told to stop and ended well: it is made again", pod: func(p *corev1.Pod) {
			p.Status.Phase, p.DeletionTimestamp = corev1.PodSucceeded, &now
		}},
		{
			name: "failed, and the gang ends",
			pod:  func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
			gang: func(g *v1alpha1.Gang) { g.Status.Outcome = v1alpha1.GangFailed }, free: true,
		},
		{
			name: "failed, and the attempt drains",
			pod:  func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
			gang: func(g *v1alpha1.Gang) { g.Status.Phase, g.Status.Attempt = v1alpha1.GangDraining, 1 }, free: true,
		},
		{
			name: "still running while the attempt drains",
			pod:  func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning },
			gang: func(g *v1alpha1.Gang) { g.Status.Phase, g.Status.Attempt = v1alpha1.GangDraining, 1 },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := testGang("g", 1, "1")
			if tt.gang != nil {
				tt.gang(g)
			}
			w := world{
				gangs:    []v1alpha1.Gang{*g},
				priority: func(string) int32 { return 0 },
				learn:    func(*v1alpha1.Gang) (dryrun.Answer, bool) { return dryrun.Answer{}, true },
				mine:     func(*corev1.Pod) bool { return false },
				placements: []v1alpha1.Placement{{Spec: v1alpha1.PlacementSpec{
					Gang: "g", GangUID: g.UID, Attempt: 1, Nodes: []string{"here"},
					Members: []v1alpha1.PlacedMember{{Role: "worker", GPUs: []string{"GPU-0"}}},
				}}},
			}
			if tt.pod != nil {
				p := memberPod(g.UID)
				tt.pod(p)
				w.pods = []corev1.Pod{*p}
			}
			l := scheduling.NewLedger(w.snapshot(time.Unix(1, 0)))
			if _, held := l.Holder("here", "GPU-0"); held == tt.free {
				t.Errorf("held is %v", held)
			}
			if len(l.Twice()) > 0 {
				t.Error("held twice")
			}
		})
	}
}

func memberPod(gang types.UID) *corev1.Pod {
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "g-worker-0", Labels: map[string]string{v1alpha1.LabelRole: "worker", v1alpha1.LabelIndex: "0"},
			Annotations:     map[string]string{v1alpha1.AnnotationGPUs: "GPU-0"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Gang", UID: gang, Controller: &yes}},
		},
		Spec: corev1.PodSpec{NodeName: "here"},
	}
}

func TestUnreadableInventory(t *testing.T) {
	n := testNode(1)
	n.Annotations[v1alpha1.AnnotationInventory] = "{"
	if got := conversion.GPUResources(nil).Node(n); got.NotReady == "" || len(got.Devices) != 0 {
		t.Errorf("%+v", got)
	}
}
