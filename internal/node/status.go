package node

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/lifecycle"
	"github.com/muster-dev/muster/internal/node/podrecord"
	"github.com/muster-dev/muster/internal/node/progress/bulletin"
)

// facts is what a pod's status is computed from.
type facts struct {
	pod    *corev1.Pod
	units  []*unit
	hostIP string
	podIP  string
	// placed is true once volumes and network are there, or a container runs.
	placed  bool
	start   time.Time
	now     time.Time
	outcome corev1.PodPhase
	// over is true once nothing runs and nothing will.
	over bool
	// reason and message explain a pod that failed as a whole, or waits.
	reason, message string
	usage           *v1alpha1.PodUsage
	// share is whether the pod's share of a GPU is enforced; nil: it has none,
	// or nothing was started with it yet.
	share    *corev1.PodCondition
	progress *v1alpha1.PodProgress
}

// status computes a pod's status. Transition times of conditions that did not
// change are kept from the pod.
func status(f facts) corev1.PodStatus {
	s := corev1.PodStatus{
		Phase:              phase(f),
		Reason:             f.reason,
		Message:            f.message,
		HostIP:             f.hostIP,
		HostIPs:            []corev1.HostIP{{IP: f.hostIP}},
		ObservedGeneration: f.pod.Generation,
	}
	if f.podIP != "" {
		s.PodIP, s.PodIPs = f.podIP, []corev1.PodIP{{IP: f.podIP}}
	}
	if !f.start.IsZero() {
		t := metav1.NewTime(f.start)
		s.StartTime = &t
	}
	initialized := true
	for _, u := range f.units {
		c := containerStatus(u, f, initialized)
		switch u.kind {
		case lifecycle.Main:
			s.ContainerStatuses = append(s.ContainerStatuses, c)
		case lifecycle.Init:
			initialized = initialized && u.last != nil && u.last.exit.Code == 0
			s.InitContainerStatuses = append(s.InitContainerStatuses, c)
		case lifecycle.Sidecar:
			initialized = initialized && u.next > 0
			s.InitContainerStatuses = append(s.InitContainerStatuses, c)
		}
	}
	if f.reason == reasonRefused || f.reason == reasonUnsupported {
		s.InitContainerStatuses, s.ContainerStatuses = nil, nil
	}
	s.Conditions = conditions(f, s.Phase, initialized)
	return s
}

// phase is Pending until a main container has started, then Running until
// nothing runs any more.
func phase(f facts) corev1.PodPhase {
	if f.over && f.outcome != "" {
		return f.outcome
	}
	for _, u := range f.units {
		if u.kind == lifecycle.Main && (u.next > 0 || u.last != nil) {
			return corev1.PodRunning
		}
	}
	return corev1.PodPending
}

func containerStatus(u *unit, f facts, initialized bool) corev1.ContainerStatus {
	c := corev1.ContainerStatus{
		Name:         u.spec.Name,
		Image:        u.spec.Image,
		ImageID:      u.imageID,
		RestartCount: int32(u.restarts()),
	}
	switch {
	case u.proc != nil:
		c.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(u.proc.StartedAt())}
		c.ContainerID = containerID(u.proc.Spec().ID)
		c.Ready = u.ready && u.kind != lifecycle.Init
		started := u.started && u.hooked
		c.Started = &started
	case u.last != nil && !again(u, f):
		c.State.Terminated = terminated(u.last)
		c.ContainerID = containerID(u.last.id)
		c.Ready = u.kind == lifecycle.Init && u.last.exit.Code == 0
	default:
		c.State.Waiting = why(u, f, initialized)
	}
	previous := u.previous
	if c.State.Waiting != nil && u.last != nil {
		previous = u.last
	}
	if previous != nil {
		c.LastTerminationState.Terminated = terminated(previous)
		if c.ContainerID == "" {
			c.ContainerID = containerID(previous.id)
		}
	}
	if c.Started == nil {
		no := false
		c.Started = &no
	}
	return c
}

// again is true for an ended container that will be started again.
func again(u *unit, f facts) bool {
	if f.over || f.outcome != "" || f.pod.DeletionTimestamp != nil || f.reason != "" {
		return false
	}
	failed := u.last.exit.Code != 0
	switch u.kind {
	case lifecycle.Init:
		return failed && f.pod.Spec.RestartPolicy != corev1.RestartPolicyNever
	case lifecycle.Sidecar:
		return true
	}
	return lifecycle.Restarts(f.pod.Spec.RestartPolicy, failed)
}

// why says what a container waits for.
func why(u *unit, f facts, initialized bool) *corev1.ContainerStateWaiting {
	switch {
	case u.wait.reason != "":
		return &corev1.ContainerStateWaiting{Reason: u.wait.reason, Message: u.wait.message}
	case u.last != nil && u.notBefore.After(f.now):
		return &corev1.ContainerStateWaiting{
			Reason:  reasonCrashLoop,
			Message: fmt.Sprintf("back-off %s restarting the container, which ended %d times", lifecycle.BackOff(u.crashes), u.crashes),
		}
	case u.kind == lifecycle.Main && !initialized:
		return &corev1.ContainerStateWaiting{Reason: reasonInitializing}
	}
	return &corev1.ContainerStateWaiting{Reason: reasonCreating}
}

func terminated(a *attempt) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{
		ExitCode:    int32(a.exit.Code),
		Signal:      int32(a.exit.Signal),
		Reason:      a.reason,
		Message:     a.message,
		StartedAt:   metav1.NewTime(a.exit.StartedAt),
		FinishedAt:  metav1.NewTime(a.exit.FinishedAt),
		ContainerID: containerID(a.id),
	}
}

func containerID(id string) string { return "muster://" + id }

// conditions computes the conditions that the node owns.
func conditions(f facts, phase corev1.PodPhase, initialized bool) []corev1.PodCondition {
	terminal := phase == corev1.PodSucceeded || phase == corev1.PodFailed
	var unready []string
	for _, u := range f.units {
		if u.kind != lifecycle.Init && (u.proc == nil || !u.ready) {
			unready = append(unready, u.spec.Name)
		}
	}
	ended := ""
	if terminal {
		ended = "PodCompleted"
		if phase == corev1.PodFailed {
			ended = "PodFailed"
		}
	}
	containers := corev1.PodCondition{Type: corev1.ContainersReady, Status: truth(len(unready) == 0 && !terminal)}
	if containers.Status == corev1.ConditionFalse {
		containers.Reason, containers.Message = "ContainersNotReady", "not ready: "+strings.Join(unready, ", ")
		if terminal {
			containers.Reason, containers.Message = ended, ""
		}
	}
	ready := containers
	ready.Type = corev1.PodReady
	if gate := closedGate(f.pod); gate != "" && ready.Status == corev1.ConditionTrue {
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "ReadinessGatesNotReady", "the readiness gate "+gate+" is not true"
	}
	set := []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		{Type: corev1.PodReadyToStartContainers, Status: truth(f.placed && !f.over)},
		{Type: corev1.PodInitialized, Status: truth(initialized)},
		containers,
		ready,
	}
	if f.usage != nil {
		if data, err := json.Marshal(f.usage); err == nil {
			set = append(set, corev1.PodCondition{Type: v1alpha1.ConditionPodUsage, Status: corev1.ConditionTrue, Reason: "Measured", Message: string(data)})
		}
	}
	if f.share != nil {
		set = append(set, corev1.PodCondition{Type: f.share.Type, Status: f.share.Status, Reason: f.share.Reason, Message: f.share.Message})
	}
	if f.progress != nil {
		set = append(set, bulletin.Condition(f.progress))
	}
	now := metav1.NewTime(f.now)
	for i := range set {
		set[i].LastTransitionTime = now
		if old := condition(f.pod, set[i].Type); old != nil && old.Status == set[i].Status && !old.LastTransitionTime.IsZero() {
			set[i].LastTransitionTime = old.LastTransitionTime
		}
	}
	return set
}

func truth(b bool) corev1.ConditionStatus {
	if b {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

// closedGate is the first readiness gate that is not true.
func closedGate(pod *corev1.Pod) string {
	for _, gate := range pod.Spec.ReadinessGates {
		if c := condition(pod, gate.ConditionType); c == nil || c.Status != corev1.ConditionTrue {
			return string(gate.ConditionType)
		}
	}
	return ""
}

func condition(pod *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// usage sums up what a pod used: CPU of all attempts, GPUs from the first
// start to the last end.
func usage(units []*unit, earlier podrecord.Past, gpus float64) v1alpha1.PodUsage {
	out := v1alpha1.PodUsage{CPUSeconds: earlier.CPUSeconds, MaxMemoryBytes: earlier.MaxRSSBytes}
	first, last := earlier.Started, time.Time{}
	for _, u := range units {
		for _, p := range u.kept {
			exit := p.Exit()
			out.CPUSeconds += exit.CPUSeconds
			out.MaxMemoryBytes = max(out.MaxMemoryBytes, exit.MaxRSSBytes)
			if !exit.StartedAt.IsZero() && (first.IsZero() || exit.StartedAt.Before(first)) {
				first = exit.StartedAt
			}
			if exit.FinishedAt.After(last) {
				last = exit.FinishedAt
			}
		}
	}
	if !first.IsZero() && last.After(first) {
		out.GPUSeconds = gpus * last.Sub(first).Seconds()
	}
	return out
}
