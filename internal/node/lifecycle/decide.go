package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Kind is a container's part in its pod.
type Kind int

// The kinds of containers.
const (
	Init Kind = iota
	Sidecar
	Main
)

// State is where in its life a container is.
type State int

// The states of a container.
const (
	Waiting State = iota
	Running
	Ended
)

// Container is what Decide sees of a container.
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

// Pod is what Decide sees of a pod.
type Pod struct {
	Policy corev1.RestartPolicy
	// Prepared is true once volumes and network are there.
	Prepared bool
	// Ending is true when the pod is to end whatever its containers do.
	Ending bool
	// Doomed is true when an ending pod has failed even if its containers
	// succeed.
	Doomed bool
	// Outcome is what was decided earlier; empty: nothing.
	Outcome corev1.PodPhase
	Units   []Container
	Now     time.Time
}

// Decision is what to do next.
type Decision struct {
	// Start and stop are indices of units.
	Start, Stop []int
	// Outcome is Succeeded or Failed once that is certain, and never changes
	// afterwards.
	Outcome corev1.PodPhase
	// Over is true once nothing runs and nothing will.
	Over bool
	// Wake is when to decide again if nothing else happens; zero: never.
	Wake time.Time
}

// Decide says what a pod needs next.
//
//  1. A pod that neither ends nor has an outcome runs: its init containers one
//     after the other, then all others.
//  2. A pod that ends, or whose outcome is certain, winds down: ordinary
//     containers first, then sidecars.
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

// run starts what may start, and finds the outcome.
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
				// A sidecar that ran before the main containers started
				// holds nothing up when it fails later.
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

// Restarts reports whether a main container that has ended is started again.
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

// windDown stops what still runs.
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

// Back-off of containers that end again and again.
const (
	FirstBackOff = 10 * time.Second
	mostBackOff  = 5 * time.Minute
	// Steady is how long a container must have run for its back-off to be
	// forgotten.
	Steady = 10 * time.Minute
)

// BackOff is how long to wait after the end of a container that has ended so
// many times in a row. The first restart is immediate.
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
