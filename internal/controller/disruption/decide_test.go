package disruption

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/departure"
)

func TestOpen(t *testing.T) {
	plain, cordoned, ordered, reclaimed := &corev1.Node{}, &corev1.Node{}, &corev1.Node{}, &corev1.Node{}
	cordoned.Spec.Unschedulable = true
	departure.Order(ordered, time.Minute)
	reclaimed.Spec.Taints = []corev1.Taint{{Key: "aws-node-termination-handler/spot-itn", Effect: corev1.TaintEffectNoSchedule}}
	for name, c := range map[string]struct {
		node *corev1.Node
		want bool
	}{"a node like any": {plain, false}, "cordoned": {cordoned, true}, "drained": {ordered, true}, "reclaimed": {reclaimed, true}} {
		if got := open(c.node, departure.Known()); got != c.want {
			t.Errorf("%s: open is %v", name, got)
		}
	}
}

func TestGuards(t *testing.T) {
	role := func(name string, n int32) v1alpha1.GangRole { return v1alpha1.GangRole{Name: name, Replicas: n} }
	for name, c := range map[string]struct {
		roles []v1alpha1.GangRole
		want  bool
	}{
		"one member":  {[]v1alpha1.GangRole{role("worker", 1)}, false},
		"two workers": {[]v1alpha1.GangRole{role("worker", 2)}, true},
		"two roles":   {[]v1alpha1.GangRole{role("ps", 1), role("worker", 1)}, true},
	} {
		if got := guards(&v1alpha1.Gang{Spec: v1alpha1.GangSpec{Roles: c.roles}}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestRelabel(t *testing.T) {
	now := metav1.Now()
	pod := func(label string, phase corev1.PodPhase, going bool) *corev1.Pod {
		p := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
		if label != "" {
			p.Labels = map[string]string{v1alpha1.LabelGuarded: label}
		}
		if going {
			p.DeletionTimestamp = &now
		}
		return p
	}
	for name, c := range map[string]struct {
		pod           *corev1.Pod
		open, guarded bool
		wrong, want   bool
	}{
		"guarded as it should be":  {pod("true", corev1.PodRunning, false), false, true, false, true},
		"its node is cordoned":     {pod("true", corev1.PodRunning, false), true, true, true, false},
		"its node takes work":      {pod("", corev1.PodRunning, false), false, true, true, true},
		"alone":                    {pod("", corev1.PodRunning, false), false, false, false, false},
		"going already":            {pod("true", corev1.PodRunning, true), true, true, false, false},
		"ended":                    {pod("true", corev1.PodFailed, false), true, true, false, false},
		"alone, labelled by users": {pod("true", corev1.PodRunning, false), false, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			if wrong, want := relabel(c.pod, c.open, c.guarded); wrong != c.wrong || want != c.want {
				t.Errorf("wrong %v, want %v", wrong, want)
			}
		})
	}
}
