package installation

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A change of version is over when every replica of the new one can work and no
// other is left, told to stop or not.
func TestWhenAChangeIsOver(t *testing.T) {
	two, none, now := int32(2), int32(0), metav1.Now()
	status := func(replicas, updated, available int32) appsv1.DeploymentStatus {
		return appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: replicas, UpdatedReplicas: updated, AvailableReplicas: available}
	}
	pod := func(phase corev1.PodPhase, going bool) corev1.Pod {
		p := corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
		if going {
			p.DeletionTimestamp = &now
		}
		return p
	}
	for name, c := range map[string]struct {
		wanted       *int32
		status       appsv1.DeploymentStatus
		pods         []corev1.Pod
		ready, alone bool
		says         string
	}{
		"not begun":          {&two, appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}, nil, false, false, "2 of 2 managers ready"},
		"the first is new":   {&two, status(3, 1, 2), nil, false, false, "2 of 2 managers ready, 1 of the new version, 2 others still there"},
		"an old one runs":    {&two, status(3, 2, 3), nil, true, false, "3 of 2 managers ready, 1 others still there"},
		"an old one stops":   {&two, status(2, 2, 2), []corev1.Pod{pod(corev1.PodRunning, false), pod(corev1.PodRunning, true)}, true, false, "2 of 2 managers ready, 1 others still there"},
		"an old one ended":   {&two, status(2, 2, 2), []corev1.Pod{pod(corev1.PodSucceeded, true), pod(corev1.PodFailed, false)}, true, true, "2 of 2 managers ready"},
		"scaled to none":     {&none, status(0, 0, 0), nil, true, true, "0 of 0 managers ready"},
		"the last one stops": {&none, status(0, 0, 0), []corev1.Pod{pod(corev1.PodRunning, true)}, true, false, "0 of 0 managers ready, 1 others still there"},
	} {
		t.Run(name, func(t *testing.T) {
			m := standingOf(&appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Generation: 3, Labels: map[string]string{labelVersion: "v2"}},
				Spec:       appsv1.DeploymentSpec{Replicas: c.wanted}, Status: c.status,
			})
			m.Leaving += leaving(c.pods)
			if m.Ready() != c.ready || m.Alone() != c.alone || m.String() != c.says {
				t.Errorf("ready %t, alone %t, %q; want %t, %t, %q", m.Ready(), m.Alone(), m, c.ready, c.alone, c.says)
			}
		})
	}
}
