package bulletin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/progress"
)

// A pod that says the same again and again costs no writes.
func TestWhatIsWorthAWrite(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(1_700_000_000+int64(seconds), 0) }
	make := func(done int64, saved int) *v1alpha1.PodProgress {
		p := &v1alpha1.PodProgress{}
		if done >= 0 {
			p.DoneMillionths, p.ReportTime = &done, microTime(at(0))
		}
		if saved >= 0 {
			p.SavedTime = microTime(at(saved))
		}
		return p
	}
	tests := []struct {
		name          string
		before, after *v1alpha1.PodProgress
		since         time.Duration
		want          bool
	}{
		{"the first word", nil, make(0, -1), time.Hour, true},
		{"the same", make(100, 5), make(100, 5), time.Hour, false},
		{"a little", make(100, -1), make(200, -1), 15 * time.Second, false},
		{"a little, a minute later", make(100, -1), make(200, -1), time.Minute, true},
		{"a hundredth", make(100, -1), make(10_100, -1), 15 * time.Second, true},
		{"the last bit", make(999_999, -1), make(1_000_000, -1), 15 * time.Second, true},
		{"back", make(500_000, -1), make(499_000, -1), 15 * time.Second, true},
		{"the first save", make(100, -1), make(100, 5), 15 * time.Second, true},
		{"saved again at once", make(100, 5), make(100, 6), 15 * time.Second, false},
		{"saved again", make(100, 5), make(100, 50), 15 * time.Second, true},
		{"a problem", make(100, 5), &v1alpha1.PodProgress{DoneMillionths: make(100, 5).DoneMillionths, SavedTime: make(1, 5).SavedTime, Problem: "x"}, 0, true},
	}
	for _, tt := range tests {
		if got := Worth(tt.before, tt.after, tt.since); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Whoever goes on observing a pod knows what was told of it.
func TestWhatIsToldIsKnown(t *testing.T) {
	at := time.Unix(1_700_000_000, 0).UTC()
	for name, s := range map[string]progress.State{
		"how much is done":   {Said: true, Done: 0.25, Reported: at},
		"that it saved":      {Said: true, Done: 0.5, Reported: at, Saved: at.Add(-time.Second), SaysSaved: true},
		"what is not read":   {Problem: "it is a folder"},
		"both, and a saving": {Said: true, Done: 1, Reported: at, Saved: at, Problem: "it is a pipe"},
	} {
		pod := &corev1.Pod{}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}, Condition(Of(s, at.Add(-time.Hour)))}
		if diff := cmp.Diff(s, Known(pod)); diff != "" {
			t.Errorf("%s (-seen +known):\n%s", name, diff)
		}
	}
	if Of(progress.State{Saved: at}, at.Add(time.Second)) != nil {
		t.Error("a save from before the pod ran is told as its own")
	}
}

// What is told again is not written again, and an observer that came later does
// not take away what was told of saves.
func TestChange(t *testing.T) {
	at := time.Unix(1_700_000_000, 0).UTC()
	before := Of(progress.State{Said: true, Done: 0.5, Reported: at, Saved: at, SaysSaved: true}, time.Time{})
	pod := &corev1.Pod{}
	first, is := Change(pod, *before, at)
	if !is || !first.LastTransitionTime.Time.Equal(at) {
		t.Fatalf("the first bulletin: %t, %+v", is, first)
	}
	pod.Status.Conditions = []corev1.PodCondition{first}
	if c, is := Change(pod, *before, at.Add(time.Hour)); is {
		t.Errorf("the same changes it to %+v", c)
	}
	next, is := Change(pod, *Of(progress.State{Said: true, Done: 0.6, Reported: at.Add(time.Minute)}, time.Time{}), at.Add(time.Minute))
	if !is || !next.LastTransitionTime.Time.Equal(at) {
		t.Errorf("more is done: %t, since %s", is, next.LastTransitionTime)
	}
	pod.Status.Conditions = []corev1.PodCondition{next}
	got, _ := Read(pod)
	if *got.DoneMillionths != 600_000 || !got.SaysSaved || got.SavedTime == nil || !got.SavedTime.Time.Equal(at) {
		t.Errorf("it is told %+v, want 60 %% and the save of before", got)
	}
	wrong, is := Change(pod, v1alpha1.PodProgress{Problem: "it is a folder"}, at.Add(time.Hour))
	if !is || wrong.Status != corev1.ConditionFalse || !wrong.LastTransitionTime.Time.Equal(at.Add(time.Hour)) {
		t.Errorf("what cannot be read: %t, %+v", is, wrong)
	}
}
