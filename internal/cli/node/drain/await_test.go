package drain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

func TestWhoIsLeft(t *testing.T) {
	now := metav1.Now()
	member := func(gang, index string, phase corev1.PodPhase, going bool) corev1.Pod {
		p := corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
		p.Namespace, p.Name = "vision", gang+"-worker-"+index
		p.Labels = map[string]string{v1alpha1.LabelGang: gang, v1alpha1.LabelRole: "worker", v1alpha1.LabelIndex: index}
		p.Spec.SchedulerName = v1alpha1.SchedulerName
		if going {
			p.DeletionTimestamp = &now
		}
		return p
	}
	bound := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "serve"}, Spec: corev1.PodSpec{SchedulerName: v1alpha1.SchedulerName}}
	other := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "dns"}, Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName}}
	for name, c := range map[string]struct {
		pods []corev1.Pod
		want []string
	}{
		"nobody":        {nil, nil},
		"others":        {[]corev1.Pod{other}, nil},
		"who has ended": {[]corev1.Pod{member("bert", "0", corev1.PodSucceeded, false), member("bert", "1", corev1.PodFailed, true)}, nil},
		"jobs and pods": {
			[]corev1.Pod{bound, member("bert", "1", corev1.PodRunning, false), member("bert", "0", corev1.PodRunning, true), member("gpt", "0", corev1.PodRunning, true)},
			[]string{"vision/bert (worker-0, worker-1)", "vision/gpt (worker-0: stopping)", "web/serve (pod)"},
		},
		"many": {
			[]corev1.Pod{
				member("bert", "0", corev1.PodRunning, false), member("bert", "1", corev1.PodRunning, false), member("bert", "2", corev1.PodRunning, false),
				member("bert", "3", corev1.PodRunning, false), member("bert", "4", corev1.PodRunning, false), member("bert", "5", corev1.PodRunning, false),
			},
			[]string{"vision/bert (worker-0, worker-1, worker-2, worker-3 and 2 more)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, leftOf(c.pods)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
