package node

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// kind is a container's part in its pod.
type kind int

const (
	kindInit kind = iota
	kindSidecar
	kindMain
)

// state is where in its life a unit is.
type state int

const (
	stateWaiting state = iota
	stateRunning
	stateEnded
)

// unitView is what decide sees of a container.
type unitView struct {
	kind  kind
	state state
	// up is true once a running container's start hook and startup probe have
	// succeeded.
	up bool
	// failed is true for an ended container that did not succeed.
	failed bool
	// notBefore is the earliest time of the next start.
	notBefore time.Time
}

// view is what decide sees of a pod.
type view struct {
	policy corev1.RestartPolicy
	// prepared is true once volumes and network are there.
	prepared bool
	// ending is true when the pod is to end whatever its containers do.
	ending bool
	// doomed is true when an ending pod has failed even if its containers
	// succeed.
	doomed bool
	// outcome is what was decided earlier; empty: nothing.
	outcome corev1.PodPhase
	units   []unitView
	now     time.Time
}

// decision is what to do next.
type decision struct {
	// start and stop are indices of units.
	start, stop []int
	// outcome is Succeeded or Failed once that is certain, and never changes
	// afterwards.
	outcome corev1.PodPhase
	// over is true once nothing runs and nothing will.
	over bool
	// wake is when to decide again if nothing else happens; zero: never.
	wake time.Time
}

// decide says what a pod needs next.
//
//  1. A pod that neither ends nor has an outcome runs: its init containers one
//     after the other, then all others.
//  2. A pod that ends, or whose outcome is certain, winds down: ordinary
//     containers first, then sidecars.
func decide(v view) decision {
	d := decision{outcome: v.outcome}
	if d.outcome == "" && !v.ending {
		d.run(v)
	}
	if d.outcome != "" || v.ending {
		d.windDown(v)
	}
	return d
}

// run starts what may start, and finds the outcome.
func (d *decision) run(v view) {
	for i, u := range v.units {
		switch u.kind {
		case kindInit:
			if u.state == stateEnded && !u.failed {
				continue
			}
			if u.state == stateEnded && v.policy == corev1.RestartPolicyNever {
				d.outcome = corev1.PodFailed
				return
			}
			d.launch(v, i)
			return
		case kindSidecar:
			d.launch(v, i)
			if u.state != stateRunning || !u.up {
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

func mainsStarted(v view) bool {
	for _, u := range v.units {
		if u.kind == kindMain && u.state != stateWaiting {
			return true
		}
	}
	return false
}

func (d *decision) runMains(v view) {
	open, failed := 0, false
	for i, u := range v.units {
		if u.kind != kindMain {
			continue
		}
		if u.state == stateEnded && !restarts(v.policy, u.failed) {
			failed = failed || u.failed
			continue
		}
		open++
		d.launch(v, i)
	}
	if open == 0 {
		d.outcome = corev1.PodSucceeded
		if failed {
			d.outcome = corev1.PodFailed
		}
	}
}

func restarts(policy corev1.RestartPolicy, failed bool) bool {
	return policy == corev1.RestartPolicyAlways || policy == "" || (policy == corev1.RestartPolicyOnFailure && failed)
}

// launch starts a unit that does not run, once its back-off is over.
func (d *decision) launch(v view, i int) {
	u := v.units[i]
	if u.state == stateRunning || !v.prepared {
		return
	}
	if u.notBefore.After(v.now) {
		if d.wake.IsZero() || u.notBefore.Before(d.wake) {
			d.wake = u.notBefore
		}
		return
	}
	d.start = append(d.start, i)
}

// windDown stops what still runs.
func (d *decision) windDown(v view) {
	d.start, d.wake = nil, time.Time{}
	var ordinary, sidecars []int
	for i, u := range v.units {
		switch {
		case u.state != stateRunning:
		case u.kind == kindSidecar:
			sidecars = append(sidecars, i)
		default:
			ordinary = append(ordinary, i)
		}
	}
	switch {
	case len(ordinary) > 0:
		d.stop = ordinary
	case len(sidecars) > 0:
		d.stop = sidecars
	default:
		d.over = true
	}
	if d.over && d.outcome == "" {
		d.outcome = corev1.PodSucceeded
		for _, u := range v.units {
			if v.doomed || (u.kind != kindSidecar && (u.state != stateEnded || u.failed)) {
				d.outcome = corev1.PodFailed
			}
		}
	}
}

// Back-off of containers that end again and again.
const (
	firstBackOff = 10 * time.Second
	mostBackOff  = 5 * time.Minute
	// steady is how long a container must have run for its back-off to be
	// forgotten.
	steady = 10 * time.Minute
)

// backOff is how long to wait after the end of a container that has ended so
// many times in a row. The first restart is immediate.
func backOff(ends int) time.Duration {
	if ends <= 1 {
		return 0
	}
	wait := firstBackOff
	for range ends - 2 {
		if wait *= 2; wait >= mostBackOff {
			return mostBackOff
		}
	}
	return wait
}
