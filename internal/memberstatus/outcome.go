package memberstatus

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/memberpod"
)

// Ended reports whether a pod's processes are gone for good.
func Ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// Finished reports whether a pod succeeded by itself: one that was being
// deleted may have ended well only because it was told to stop.
func Finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded && p.DeletionTimestamp == nil
}

// Usage is what an ended pod used: the node's measurement, or where there is
// none the time its containers ran.
func Usage(p *corev1.Pod) v1alpha1.PodUsage {
	for _, c := range p.Status.Conditions {
		var u v1alpha1.PodUsage
		if c.Type == v1alpha1.ConditionPodUsage && json.Unmarshal([]byte(c.Message), &u) == nil {
			return u
		}
	}
	var from, to time.Time
	for _, c := range p.Status.ContainerStatuses {
		t := c.State.Terminated
		if t == nil || t.StartedAt.IsZero() {
			continue
		}
		if from.IsZero() || t.StartedAt.Time.Before(from) {
			from = t.StartedAt.Time
		}
		if t.FinishedAt.After(to) {
			to = t.FinishedAt.Time
		}
	}
	if from.IsZero() || to.Before(from) {
		return v1alpha1.PodUsage{}
	}
	return v1alpha1.PodUsage{GPUSeconds: memberpod.GPUs(p) * to.Sub(from).Seconds()}
}

// EndTime is when a pod ended, as well as is known: its own time has whole
// seconds, so the moment of seeing it is better where the two are close.
func EndTime(p *corev1.Pod, now time.Time) time.Time {
	var at time.Time
	for _, c := range p.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil && t.FinishedAt.After(at) {
			at = t.FinishedAt.Time
		}
	}
	if at.IsZero() || now.Sub(at) < 2*time.Second {
		return now
	}
	return at
}

// StartTime is when a pod's first main container started; where no container
// says, when the node took the pod. Making volumes and running init containers
// lies between the two, and is no time of the member's.
func StartTime(p *corev1.Pod) *metav1.Time {
	var first *metav1.Time
	for i := range p.Status.ContainerStatuses {
		c := &p.Status.ContainerStatuses[i]
		var at *metav1.Time
		switch {
		case c.State.Running != nil:
			at = &c.State.Running.StartedAt
		case c.State.Terminated != nil:
			at = &c.State.Terminated.StartedAt
		}
		if !at.IsZero() && (first == nil || at.Before(first)) {
			first = at
		}
	}
	if first == nil {
		return p.Status.StartTime
	}
	return first
}

// FailureText says how a pod failed, of what messages call it.
func FailureText(who string, p *corev1.Pod) string {
	text := who + " failed"
	statuses := slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
	for _, c := range statuses {
		t := c.State.Terminated
		if t == nil || t.ExitCode == 0 {
			continue
		}
		if t.Signal != 0 {
			text = fmt.Sprintf("%s was ended by signal %d", who, t.Signal)
		} else {
			text = fmt.Sprintf("%s ended with exit code %d", who, t.ExitCode)
		}
		if t.Reason != "" && t.Reason != "Error" {
			text += " (" + t.Reason + ")"
		}
		if t.Message != "" {
			text += ": " + strings.TrimSpace(t.Message)
		}
		break
	}
	if p.Status.Reason != "" {
		text += " (" + p.Status.Reason + ")"
	}
	if p.Status.Message != "" {
		text += ": " + p.Status.Message
	}
	return text
}

// Permanent reports whether a pod failed with an exit code that says that the
// same would happen again: from 1 to 127. A signal ends with more.
func Permanent(p *corev1.Pod) bool {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return t.Signal == 0 && t.ExitCode > 0 && t.ExitCode < 128
		}
	}
	return false
}
