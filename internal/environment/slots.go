//go:build linux

package environment

import (
	"context"
	"sync"
)

// slots are the builds that may run at once. A namespace has one of them, and of those that wait
// each namespace has one, the oldest first.
type slots struct {
	all chan struct{}

	mu  sync.Mutex
	own map[string]*turn
}

// turn is that of the builds of one namespace.
type turn struct {
	held chan struct{}
	// users are the builds that hold or wait for it.
	users int
}

func newSlots(wide int) *slots {
	return &slots{all: make(chan struct{}, wide), own: map[string]*turn{}}
}

// take waits for a slot; waits is called if none is free at once. The caller calls free after its build.
func (s *slots) take(ctx context.Context, namespace string, waits func()) (free func(), err error) {
	s.mu.Lock()
	t := s.own[namespace]
	if t == nil {
		t = &turn{held: make(chan struct{}, 1)}
		s.own[namespace] = t
	}
	t.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(s.own, namespace)
		}
	}
	waits = sync.OnceFunc(waits)
	if err := enter(ctx, t.held, waits); err != nil {
		leave()
		return nil, err
	}
	if err := enter(ctx, s.all, waits); err != nil {
		<-t.held
		leave()
		return nil, err
	}
	return func() { <-s.all; <-t.held; leave() }, nil
}

// enter sends to a channel. Those that wait for the same channel are served in the order in which they came.
func enter(ctx context.Context, to chan struct{}, waits func()) error {
	select {
	case to <- struct{}{}:
		return nil
	default:
	}
	waits()
	select {
	case to <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
