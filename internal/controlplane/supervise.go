package controlplane

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A child that dies is started again after a growing pause; one that has died
// too often in a while is given up, because something is wrong that starting
// does not mend.
const (
	maxRestarts   = 5
	restartWindow = 10 * time.Minute
	firstPause    = 100 * time.Millisecond
)

// restarts decides whether and when a child that died is started again.
type restarts struct {
	deaths []time.Time
}

// next tells how long to wait before the start that follows a death at now,
// and which one in the window it is, from 1; ok is false when there have been
// too many.
func (r *restarts) next(now time.Time) (pause time.Duration, nth int, ok bool) {
	r.deaths = slices.DeleteFunc(r.deaths, func(death time.Time) bool { return now.Sub(death) >= restartWindow })
	r.deaths = append(r.deaths, now)
	nth = len(r.deaths)
	return firstPause << (nth - 1), nth, nth <= maxRestarts
}

// supervise replaces a child that dies, until Stop or until it gives up.
func (c *ControlPlane) supervise() {
	defer close(c.done)
	defer func() { _ = c.close() }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var deaths restarts
	for {
		<-c.current.exited
		if c.isStopping() {
			return
		}
		cause := c.current.cause(c.options)
		pause, nth, ok := deaths.next(time.Now())
		if !ok {
			c.err = fmt.Errorf("the control plane died %d times within %s and is not started again: %w", nth, restartWindow, cause)
			return
		}
		c.options.note(fmt.Sprintf("the control plane ended unexpectedly (%s); starting it again, %d of %d", firstLine(cause.Error()), nth, maxRestarts))
		select {
		case <-time.After(pause):
		case <-c.stopping:
			return
		}
		// After an end because of a full disk, the reserve makes the next start possible.
		if _, err := tend(c.options.DataDir, c.options.Bare); err != nil {
			c.options.note(err.Error())
		}
		next, err := spawn(ctx, c.options, c.order, c.listener)
		if err != nil {
			c.err = fmt.Errorf("starting the control plane again: %w", err)
			return
		}
		if !c.adopt(next) {
			return
		}
	}
}

func (c *ControlPlane) isStopping() bool {
	select {
	case <-c.stopping:
		return true
	default:
		return false
	}
}

// adopt makes next the current child, unless Stop came meanwhile and has seen
// only the one before.
func (c *ControlPlane) adopt(next *child) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isStopping() {
		next.kill()
		return false
	}
	c.current = next
	return true
}
