package ending

import (
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Member is a member of a job.
type Member struct{ Namespace, Job, Role, Index string }

// End is the end of a container.
type End struct {
	// Reason is why it ended, for people.
	Reason string
	// Time has whole seconds, as the API has.
	Time time.Time
}

// After reports whether it ended since a time.
func (e End) After(since time.Time) bool {
	return e.Reason != "" && !e.Time.Before(since.Truncate(time.Second))
}

// Of returns the last end of a container of a pod; the zero value if none has ended.
func Of(pod *corev1.Pod) (last End) {
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		for _, state := range []corev1.ContainerState{status.LastTerminationState, status.State} {
			if end := state.Terminated; end != nil && !end.FinishedAt.Time.Before(last.Time) {
				last = End{words(pod, status.Name, end), end.FinishedAt.Time}
			}
		}
	}
	return last
}

// words say how a container ended, with the limit that it was killed for.
func words(pod *corev1.Pod, container string, end *corev1.ContainerStateTerminated) string {
	if end.Reason != "OOMKilled" {
		return fmt.Sprintf("its worker ended (%s, exit code %d)", end.Reason, end.ExitCode)
	}
	for i := range pod.Spec.Containers {
		one := &pod.Spec.Containers[i]
		if limit := one.Resources.Limits.Memory(); one.Name == container && !limit.IsZero() {
			return fmt.Sprintf("OOM killed: the program and its worker need more memory than their limit of %.1f MiB; raise the stage's memory limit", float64(limit.Value())/(1<<20))
		}
	}
	return "OOM killed: the machine had no memory left"
}

// kept is the number of members whose last ends are in a log: the reason is asked for when the
// next worker starts, or after a worker has been silent for a while.
const kept = 4096

// Log has the last end of each of the members that ended last. The zero value is empty and can
// be used.
type Log struct {
	mu    sync.Mutex
	ends  map[Member]End
	order []Member // by their last ends, the oldest first
}

// Note notes the end of a container of a member's pod, if one has ended.
func (l *Log) Note(pod *corev1.Pod) {
	member := Member{pod.Namespace, pod.Labels[v1alpha1.LabelJob], pod.Labels[v1alpha1.LabelRole], pod.Labels[v1alpha1.LabelIndex]}
	end := Of(pod)
	if member.Job == "" || end.Reason == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before, known := l.ends[member]
	switch {
	case known && (end.Time.Before(before.Time) || end.Reason == before.Reason && end.Time.Equal(before.Time)):
		return
	case known:
		l.order = slices.DeleteFunc(l.order, func(m Member) bool { return m == member })
	case len(l.order) == kept:
		delete(l.ends, l.order[0])
		l.order = l.order[1:]
	}
	l.order = append(l.order, member)
	if l.ends == nil {
		l.ends = map[Member]End{}
	}
	l.ends[member] = end
}

// Last returns the last end of a member; the zero value if none is known.
func (l *Log) Last(member Member) End {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ends[member]
}
