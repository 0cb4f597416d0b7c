package ending

import (
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// pod is of the worker with an index, and its container has a limit and these states.
func pod(index, limit string, state, before *corev1.ContainerStateTerminated) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Labels: map[string]string{
		v1alpha1.LabelJob: "job", v1alpha1.LabelRole: "worker", v1alpha1.LabelIndex: index,
	}}}
	p.Spec.Containers = []corev1.Container{{Name: "main"}}
	if limit != "" {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", State: corev1.ContainerState{Terminated: state}, LastTerminationState: corev1.ContainerState{Terminated: before},
	}}
	return p
}

func ended(reason string, code int32, after time.Duration) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, FinishedAt: metav1.NewTime(noon.Add(after))}
}

func TestOf(t *testing.T) {
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"its limit":       {pod("0", "64Mi", ended("OOMKilled", 137, 0), nil), "OOM killed: the program and its worker need more memory than their limit of 64.0 MiB; raise the stage's memory limit"},
		"the machine":     {pod("0", "", ended("OOMKilled", 137, 0), nil), "OOM killed: the machine had no memory left"},
		"another end":     {pod("0", "64Mi", ended("Error", 139, 0), nil), "its worker ended (Error, exit code 139)"},
		"the last of two": {pod("0", "", ended("Error", 2, time.Second), ended("Error", 1, 0)), "its worker ended (Error, exit code 2)"},
		"one before":      {pod("0", "", nil, ended("Error", 1, 0)), "its worker ended (Error, exit code 1)"},
		"none":            {pod("0", "", nil, nil), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Of(c.pod); got.Reason != c.want {
				t.Errorf("it ended as %q, want %q", got.Reason, c.want)
			}
		})
	}
}

// TestLog: the last end of a member is there when its pod is gone, and only so many are kept.
func TestLog(t *testing.T) {
	var l Log
	member := Member{"a", "job", "worker", "0"}
	l.Note(pod("0", "", nil, nil))
	if end := l.Last(member); end.After(time.Time{}) {
		t.Errorf("an end of a worker that runs: %+v", end)
	}
	l.Note(pod("0", "", ended("Error", 2, time.Second), nil))
	l.Note(pod("0", "", ended("Error", 1, 0), nil)) // as a watch may tell it, of an older pod
	end := l.Last(member)
	if end.Reason != "its worker ended (Error, exit code 2)" || !end.After(noon.Add(1900*time.Millisecond)) || end.After(noon.Add(2*time.Second)) {
		t.Errorf("the last end is %+v", end)
	}
	for i := range kept - 1 {
		l.Note(pod(strconv.Itoa(i+1), "", ended("Error", 1, 0), nil))
	}
	l.Note(pod("0", "", ended("Error", 3, 3*time.Second), nil))
	l.Note(pod("more", "", ended("Error", 1, 0), nil))
	if end := l.Last(member); end.Reason != "its worker ended (Error, exit code 3)" || len(l.ends) != kept {
		t.Errorf("of the member that ended last: %+v, of %d", end, len(l.ends))
	}
	for i := range kept {
		l.Note(pod(strconv.Itoa(-i-1), "", ended("Error", 1, 0), nil))
	}
	if end := l.Last(member); end.Reason != "" || len(l.ends) != kept || len(l.order) != kept {
		t.Errorf("%d members are kept, and the first has %+v", len(l.ends), end)
	}
}
