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

// Finished reports whether a pod succeeded by itself. A pod under deletion may have
// succeeded only because its node stopped it.
func Finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded && p.DeletionTimestamp == nil
}

// Usage returns the usage of an ended pod: the node's measurement, or without one the
// run time of the pod's containers.
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

// EndTime returns the time at which a pod ended. The pod's status has whole seconds
// only, so EndTime returns now if the two are close.
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

// StartTime returns the time at which a pod's first main container started. If no
// container reports one, it returns the time at which the node accepted the pod. The
// node makes volumes and runs init containers between the two; that time does not count
// for the member.
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

// FailureText describes the failure of a pod, in a sentence with who as its subject.
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

// Permanent reports whether a pod failed with a permanent exit code: from 1 to 127. The
// exit code after a signal is larger.
func Permanent(p *corev1.Pod) bool {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return t.Signal == 0 && t.ExitCode > 0 && t.ExitCode < 128
		}
	}
	return false
}
