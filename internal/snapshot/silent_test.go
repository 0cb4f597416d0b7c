package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// What a member's pod goes through is told to the core where it changes what is
// held, and costs next to nothing where it does not.
func TestEffect(t *testing.T) {
	pod := func(edit func(*corev1.Pod)) *corev1.Pod {
		p := memberPod("uid-g")
		p.Spec.Containers = []corev1.Container{{Name: "main"}}
		if edit != nil {
			edit(p)
		}
		return p
	}
	runs := pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
	succeeded := pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	failed := pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	tests := []struct {
		name          string
		before, after *corev1.Pod
		done          []string
		want          effect
	}{
		{"it comes", nil, pod(nil), nil, silent},
		{"it comes, on no node", nil, pod(func(p *corev1.Pod) { p.Spec.NodeName = "" }), nil, unclear},
		{"it comes and asks for something else than the gang says", nil, pod(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		}), nil, unclear},
		{"it starts", pod(nil), runs, nil, silent},
		{"it succeeds", runs, succeeded, nil, ends},
		{"it fails and is started again in its place", runs, failed, nil, silent},
		{"it fails, and was counted as done", runs, failed, []string{"worker-0"}, ends},
		{"it goes", runs, nil, nil, silent},
		{"it goes after it succeeded, which is not written down yet", succeeded, nil, nil, unclear},
		{"it goes after it succeeded", succeeded, nil, []string{"worker-0"}, silent},
		{"it comes again once its member is done", nil, runs, []string{"worker-0"}, unclear},
		{"its GPUs are others", runs, pod(func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationGPUs] = "GPU-1" }), nil, unclear},
		{"it is of no member that is known", nil, pod(func(p *corev1.Pod) { p.Labels[v1alpha1.LabelIndex] = "7" }), nil, unclear},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMirror()
			g := testGang("g", 2, "1")
			g.Status = v1alpha1.GangStatus{Phase: v1alpha1.GangRunning, Attempt: 1, Done: tt.done}
			m.shown(g)
			p := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: "g-1", UID: "p"}}
			p.Spec = v1alpha1.PlacementSpec{Gang: "g", GangUID: g.UID, Attempt: 1, Nodes: []string{"here"}, Members: []v1alpha1.PlacedMember{{Role: "worker"}, {Role: "worker", Index: 1}}}
			m.shown(p)
			if got := m.effect(tt.before, tt.after); got != tt.want {
				t.Errorf("effect %d, want %d", got, tt.want)
			}
		})
	}
}
