package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Kind is the kind of a container in its pod.
type Kind int

// The kinds of containers.
const (
	Init Kind = iota
	Sidecar
	Main
)

// State is the state of a container.
type State int

// The states of a container.
const (
	Waiting State = iota
	Running
	Ended
)

// Container is the observed state of a container.
type Container struct {
	Kind  Kind
	State State
	// Up is true once a running container's start hook and startup probe have
	// succeeded.
	Up bool
	// Failed is true for an ended container that did not succeed.
	Failed bool
	// NotBefore is the earliest time of the next start.
	NotBefore time.Time
}

// Pod is the observed state of a pod.
type Pod struct {
	Policy corev1.RestartPolicy
	// Prepared is true once the pod has its volumes and network.
	Prepared bool
	// Ending is true if the pod must end, whatever its containers do.
	Ending bool
	// Doomed is true if an ending pod fails even if its containers succeed.
	Doomed bool
	// Outcome is the phase that an earlier decision set; empty without one.
	Outcome corev1.PodPhase
	Units   []Container
	Now     time.Time
}

// Decision is the next step of a pod.
type Decision struct {
	// Start and Stop are indices of units.
	Start, Stop []int
	// Outcome is Succeeded or Failed once it is final; else empty.
	Outcome corev1.PodPhase
	// Over is true once no container runs or will start again.
	Over bool
	// Wake is the time of the next decision if no event comes before; zero for none.
	Wake time.Time
}

// Decide returns the next step of a pod.
//
//  1. A pod that is not ending and has no outcome runs its init containers one after
//     the other, and then all others.
//  2. A pod that is ending or has an outcome stops its init and main containers first,
//     then its sidecars.
func Decide(v Pod) Decision {
	d := Decision{Outcome: v.Outcome}
	if d.Outcome == "" && !v.Ending {
		d.run(v)
	}
	if d.Outcome != "" || v.Ending {
		d.windDown(v)
	}
	return d
}

// run sets the containers to start, and the outcome.
func (d *Decision) run(v Pod) {
	for i, u := range v.Units {
		switch u.Kind {
		case Init:
			if u.State == Ended && !u.Failed {
				continue
			}
			if u.State == Ended && v.Policy == corev1.RestartPolicyNever {
				d.Outcome = corev1.PodFailed
				return
			}
			d.launch(v, i)
			return
		case Sidecar:
			d.launch(v, i)
			if u.State != Running || !u.Up {
				// Main containers that have started do not wait for a sidecar
				// that fails later.
				if !mainsStarted(v) {
					return
				}
			}
		}
	}
	d.runMains(v)
}

func mainsStarted(v Pod) bool {
	for _, u := range v.Units {
		if u.Kind == Main && u.State != Waiting {
			return true
		}
	}
	return false
}

func (d *Decision) runMains(v Pod) {
	open, failed := 0, false
	for i, u := range v.Units {
		if u.Kind != Main {
			continue
		}
		if u.State == Ended && !Restarts(v.Policy, u.Failed) {
			failed = failed || u.Failed
			continue
		}
		open++
		d.launch(v, i)
	}
	if open == 0 {
		d.Outcome = corev1.PodSucceeded
		if failed {
			d.Outcome = corev1.PodFailed
		}
	}
}

// Restarts reports whether a main container restarts after its end.
func Restarts(policy corev1.RestartPolicy, failed bool) bool {
	return policy == corev1.RestartPolicyAlways || policy == "" || (policy == corev1.RestartPolicyOnFailure && failed)
}

// launch starts a unit that does not run, once its back-off is over.
func (d *Decision) launch(v Pod, i int) {
	u := v.Units[i]
	if u.State == Running || !v.Prepared {
		return
	}
	if u.NotBefore.After(v.Now) {
		if d.Wake.IsZero() || u.NotBefore.Before(d.Wake) {
			d.Wake = u.NotBefore
		}
		return
	}
	d.Start = append(d.Start, i)
}

// windDown sets the running containers to stop.
func (d *Decision) windDown(v Pod) {
	d.Start, d.Wake = nil, time.Time{}
	var ordinary, sidecars []int
	for i, u := range v.Units {
		switch {
		case u.State != Running:
		case u.Kind == Sidecar:
			sidecars = append(sidecars, i)
		default:
			ordinary = append(ordinary, i)
		}
	}
	switch {
	case len(ordinary) > 0:
		d.Stop = ordinary
	case len(sidecars) > 0:
		d.Stop = sidecars
	default:
		d.Over = true
	}
	if d.Over && d.Outcome == "" {
		d.Outcome = corev1.PodSucceeded
		for _, u := range v.Units {
			if v.Doomed || (u.Kind != Sidecar && (u.State != Ended || u.Failed)) {
				d.Outcome = corev1.PodFailed
			}
		}
	}
}

// Back-off of containers that end repeatedly.
const (
	FirstBackOff = 10 * time.Second
	mostBackOff  = 5 * time.Minute
	// Steady is the run time after which a container's back-off starts anew.
	Steady = 10 * time.Minute
)

// BackOff returns the delay before a container restarts after so many ends in a row. The
// first restart is immediate.
func BackOff(ends int) time.Duration {
	if ends <= 1 {
		return 0
	}
	wait := FirstBackOff
	for range ends - 2 {
		if wait *= 2; wait >= mostBackOff {
			return mostBackOff
		}
	}
	return wait
}
