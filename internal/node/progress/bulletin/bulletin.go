package bulletin

import (
	"encoding/json"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/progress"
)

// What of a pod's progress is worth a write at the next look; less is written
// once a minute.
const (
	worthDone  = v1alpha1.Whole / 100
	worthSaved = 30 * time.Second
	worthTime  = time.Minute
)

// Of is what the API is told; nil: nothing is known. What was saved before since,
// when the pod began to run, is not its own.
func Of(s progress.State, since time.Time) *v1alpha1.PodProgress {
	p := &v1alpha1.PodProgress{Problem: s.Problem, SaysSaved: s.SaysSaved}
	if s.Said {
		done := progress.Millionths(s.Done)
		p.DoneMillionths, p.ReportTime = &done, microTime(s.Reported)
	}
	if s.Saved.After(since) {
		p.SavedTime = microTime(s.Saved)
	}
	if p.DoneMillionths == nil && p.SavedTime == nil && p.Problem == "" {
		return nil
	}
	return p
}

func microTime(t time.Time) *metav1.MicroTime {
	at := metav1.NewMicroTime(t.UTC().Truncate(time.Microsecond))
	return &at
}

// Worth says whether a bulletin is worth a write, so long after the last one.
func Worth(before, after *v1alpha1.PodProgress, since time.Duration) bool {
	if before == nil || before.Problem != after.Problem || (before.DoneMillionths == nil) != (after.DoneMillionths == nil) || (before.SavedTime == nil) != (after.SavedTime == nil) {
		return true
	}
	if after.DoneMillionths != nil {
		moved := *after.DoneMillionths - *before.DoneMillionths
		if moved >= worthDone || moved < 0 || moved > 0 && (since >= worthTime || *after.DoneMillionths == v1alpha1.Whole) {
			return true
		}
	}
	if after.SavedTime == nil {
		return false
	}
	later := after.SavedTime.Sub(before.SavedTime.Time)
	return later >= worthSaved || later > 0 && since >= worthTime
}

// Read is what the API was told of a pod; false: nothing that can be read.
func Read(pod *corev1.Pod) (v1alpha1.PodProgress, bool) {
	var p v1alpha1.PodProgress
	c := find(pod)
	if c == nil || json.Unmarshal([]byte(c.Message), &p) != nil {
		return v1alpha1.PodProgress{}, false
	}
	return p, true
}

func find(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1alpha1.ConditionPodProgress {
			return c
		}
	}
	return nil
}

// Known is what the API was told of a pod, for whoever goes on observing it.
func Known(pod *corev1.Pod) progress.State {
	p, ok := Read(pod)
	if !ok {
		return progress.State{}
	}
	s := progress.State{SaysSaved: p.SaysSaved, Problem: p.Problem}
	if p.DoneMillionths != nil && p.ReportTime != nil {
		s.Said, s.Done, s.Reported = true, math.Min(1, math.Max(0, float64(*p.DoneMillionths)/v1alpha1.Whole)), p.ReportTime.Time
	}
	if p.SavedTime != nil {
		s.Saved = p.SavedTime.Time
	}
	return s
}

// Condition is the condition that tells of it, without the time since when.
func Condition(p *v1alpha1.PodProgress) corev1.PodCondition {
	c := corev1.PodCondition{Type: v1alpha1.ConditionPodProgress, Status: corev1.ConditionTrue, Reason: "Observed"}
	if p.Problem != "" {
		c.Status, c.Reason = corev1.ConditionFalse, "NotUnderstood"
	}
	if data, err := json.Marshal(p); err == nil {
		c.Message = string(data)
	}
	return c
}

// Change is the condition that a pod gets by a bulletin; false where it says
// what the pod's says already. What was told of saves stays where the bulletin,
// of an observer that came later, knows of none.
func Change(pod *corev1.Pod, p v1alpha1.PodProgress, now time.Time) (corev1.PodCondition, bool) {
	before, told := Read(pod)
	if told && before.SaysSaved && (p.SavedTime == nil || before.SavedTime != nil && p.SavedTime.Before(before.SavedTime)) {
		p.SavedTime, p.SaysSaved = before.SavedTime, true
	}
	c, old := Condition(&p), find(pod)
	if old != nil && old.Status == c.Status && old.Message == c.Message {
		return c, false
	}
	c.LastTransitionTime = metav1.NewTime(now)
	if old != nil && old.Status == c.Status && !old.LastTransitionTime.IsZero() {
		c.LastTransitionTime = old.LastTransitionTime
	}
	return c, true
}
