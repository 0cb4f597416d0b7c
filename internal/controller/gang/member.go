package gang

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/memberpod"
)

// memberName is role-index, as in status.done.
func memberName(role string, index int32) string {
	return role + "-" + strconv.Itoa(int(index))
}

// nameOf is the member that a pod is of.
func nameOf(p *corev1.Pod) string {
	return p.Labels[v1alpha1.LabelRole] + "-" + p.Labels[v1alpha1.LabelIndex]
}

// awaited reports whether the gang's success waits for the member that a pod is
// of.
func awaited(g *v1alpha1.Gang, p *corev1.Pod) bool {
	role := p.Labels[v1alpha1.LabelRole]
	return slices.Contains(g.Spec.DoneWhen, role) || slices.Contains(g.Spec.DoneWhen, role+"/"+p.Labels[v1alpha1.LabelIndex])
}

// alone reports whether a gang has a single member.
func alone(g *v1alpha1.Gang) bool {
	return len(g.Spec.Roles) == 1 && g.Spec.Roles[0].Replicas == 1
}

// called is what messages call a member. Who runs one script never heard of
// members: it is the job itself.
func called(g *v1alpha1.Gang, name string) string {
	if alone(g) {
		return "it"
	}
	return name
}

// attemptOf is the attempt that a pod is of, 0 if it does not say.
func attemptOf(p *corev1.Pod) int32 {
	n, err := strconv.ParseInt(p.Labels[v1alpha1.LabelAttempt], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// ended reports whether a pod's processes are gone for good.
func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// finished reports whether a pod succeeded by itself: one that was being
// deleted may have ended well only because it was told to stop.
func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded && p.DeletionTimestamp == nil
}

// usage is what an ended pod used: the node's measurement, or where there is
// none the time its containers ran.
func usage(p *corev1.Pod) v1alpha1.PodUsage {
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

func addSeconds(q *resource.Quantity, seconds float64) {
	q.Add(*resource.NewMilliQuantity(int64(seconds*1000), resource.DecimalSI))
}

// endTime is when a pod ended, as well as is known: its own time has whole
// seconds, so the moment of seeing it is better where the two are close.
func endTime(p *corev1.Pod, now time.Time) time.Time {
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

// startTime is when a pod's first main container started; where no container
// says, when the node took the pod. Making volumes and running init containers
// lies between the two, and is no time of the member's.
func startTime(p *corev1.Pod) *metav1.Time {
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

// failureText says how a pod failed, of what messages call it.
func failureText(who string, p *corev1.Pod) string {
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

// permanent reports whether a pod failed with an exit code that says that the
// same would happen again: from 1 to 127. A signal ends with more.
func permanent(p *corev1.Pod) bool {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return t.Signal == 0 && t.ExitCode > 0 && t.ExitCode < 128
		}
	}
	return false
}

// backoff is base, doubled for each one after the first, at most a minute.
func backoff(base time.Duration, nth int32) time.Duration {
	d := base
	for ; nth > 1 && d < time.Minute; nth-- {
		d *= 2
	}
	return min(d, time.Minute)
}

// inAWhile is a time in the future, in the whole seconds that the API keeps.
func inAWhile(now time.Time, d time.Duration) *metav1.Time {
	t := metav1.NewTime(now.Add(d).Round(time.Second))
	return &t
}
