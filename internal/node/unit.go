package node

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/lifecycle"
	"github.com/muster-dev/muster/internal/node/process"
)

// Reasons that Muster's node gives in container and pod status.
const (
	reasonCompleted    = "Completed"
	reasonError        = "Error"
	reasonOOMKilled    = "OOMKilled"
	reasonStartError   = "StartError"
	reasonCannotRun    = "ContainerCannotRun"
	reasonUnknown      = "ContainerStatusUnknown"
	reasonCreating     = "ContainerCreating"
	reasonInitializing = "PodInitializing"
	reasonConfigError  = "CreateContainerConfigError"
	reasonCreateError  = "CreateContainerError"
	reasonCrashLoop    = "CrashLoopBackOff"
	reasonRefused      = v1alpha1.ReasonRefused
	reasonUnsupported  = v1alpha1.ReasonUnsupported
	reasonDeadline     = "DeadlineExceeded"
	reasonHookError    = "PostStartHookError"
	reasonUnhealthy    = "Unhealthy"
)

// attempt is how one start of a container ended.
type attempt struct {
	id      string
	exit    process.Exit
	reason  string
	message string
}

// waiting says why a container does not run yet.
type waiting struct {
	reason, message string
}

// unit is a container with all its attempts. Only its worker touches it.
type unit struct {
	spec *corev1.Container
	kind lifecycle.Kind
	gpus []string

	// imageID is the image that it runs in; empty: none, or not known yet.
	imageID string
	// next is the number of the next attempt.
	next int
	// proc is the attempt that runs now; nil: none does.
	proc *process.Process
	// last is how the latest attempt ended, nil while one runs or before the
	// first; previous is how the one before that ended.
	last, previous *attempt
	// kept are ended attempts whose folders, and so their logs, are still
	// there, oldest first.
	kept []*process.Process

	wait      waiting
	crashes   int
	lockTries int
	// lockSince is when the lock of a GPU was first found held; zero: it is not.
	lockSince time.Time
	notBefore time.Time

	// hooked is true once the start hook is over.
	hooked bool
	// started and ready are the verdicts of the probes.
	started, ready bool
	// cancel ends the probes and hooks of the running attempt.
	cancel context.CancelFunc
	// stopBy is when the running attempt is killed; zero: it is not being
	// stopped.
	stopBy time.Time
	// failure overrides the reason of the running attempt's end.
	failure waiting
}

// newUnits lists a pod's containers: init containers first, in order.
func newUnits(pod *corev1.Pod, gpus map[string][]string) []*unit {
	var units []*unit
	for i := range pod.Spec.InitContainers {
		ctr, k := &pod.Spec.InitContainers[i], lifecycle.Init
		if ctr.RestartPolicy != nil && *ctr.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			k = lifecycle.Sidecar
		}
		units = append(units, &unit{spec: ctr, kind: k, gpus: gpus[ctr.Name]})
	}
	for i := range pod.Spec.Containers {
		ctr := &pod.Spec.Containers[i]
		units = append(units, &unit{spec: ctr, kind: lifecycle.Main, gpus: gpus[ctr.Name]})
	}
	return units
}

func (u *unit) state() lifecycle.State {
	switch {
	case u.proc != nil:
		return lifecycle.Running
	case u.last != nil:
		return lifecycle.Ended
	}
	return lifecycle.Waiting
}

func (u *unit) view() lifecycle.Container {
	return lifecycle.Container{
		Kind:      u.kind,
		State:     u.state(),
		Up:        u.hooked && u.started,
		Failed:    u.last != nil && u.last.exit.Code != 0,
		NotBefore: u.notBefore,
	}
}

// restarts is how often the container was started again.
func (u *unit) restarts() int { return max(u.next-1, 0) }

// begin records that an attempt runs.
func (u *unit) begin(p *process.Process) {
	u.proc, u.next = p, p.Spec().Restart+1
	if u.last != nil {
		u.previous, u.last = u.last, nil
	}
	u.wait, u.failure = waiting{}, waiting{}
	u.stopBy = time.Time{}
	u.lockTries, u.lockSince = 0, time.Time{}
	u.hooked = u.spec.Lifecycle == nil || u.spec.Lifecycle.PostStart == nil
	u.started = u.spec.StartupProbe == nil
	u.ready = u.started && u.spec.ReadinessProbe == nil
}

// end records how the running attempt ended, and when the next may start.
func (u *unit) end(exit process.Exit) {
	p := u.proc
	if u.cancel != nil {
		u.cancel()
		u.cancel = nil
	}
	u.proc, u.ready, u.started = nil, false, false
	u.kept = append(u.kept, p)
	u.conclude(p.Spec().ID, exit)
}

// conclude records an attempt's end.
func (u *unit) conclude(id string, exit process.Exit) {
	if u.last != nil {
		u.previous = u.last
	}
	a := &attempt{id: id, exit: exit, reason: exitReason(exit), message: exit.Message}
	if exit.Err != "" && a.message == "" {
		a.message = exit.Err
	}
	if u.failure.reason != "" {
		a.reason, a.message = u.failure.reason, u.failure.message
	}
	u.last = a
	if exit.FinishedAt.Sub(exit.StartedAt) >= lifecycle.Steady && !exit.StartedAt.IsZero() {
		u.crashes = 0
	}
	u.crashes++
	u.notBefore = exit.FinishedAt.Add(lifecycle.BackOff(u.crashes))
}

// exitReason is the word for how a container ended.
func exitReason(exit process.Exit) string {
	switch {
	case exit.OOMKilled:
		return reasonOOMKilled
	case exit.Reason == process.ReasonShimLost:
		return reasonUnknown
	case exit.Reason == process.ReasonNotFound || exit.Reason == process.ReasonNotExecutable || exit.Reason == process.ReasonDirectory:
		return reasonCannotRun
	case exit.Reason != "":
		return reasonStartError
	case exit.Code == 0:
		return reasonCompleted
	}
	return reasonError
}
