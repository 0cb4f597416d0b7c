package fairqueue

import (
	"context"
	"sync"
)

// Slots bound how many callers work at once. They are a semaphore that is fair by namespace.
// Package turns bounds callers that come from outside and may be refused; here all wait.
type Slots struct {
	mu    sync.Mutex
	free  int
	lines lines[*waiter]
}

// waiter waits for a slot; given is closed once it has one.
type waiter struct{ given chan struct{} }

// NewSlots makes a number of slots, at least one.
func NewSlots(n int) *Slots { return &Slots{free: max(1, n), lines: newLines[*waiter]()} }

// Take waits for a slot for work of a namespace. A higher priority is served first. Call Give
// after the work unless Take returns an error, which is that of the context.
func (s *Slots) Take(ctx context.Context, namespace string, priority int) error {
	w := s.join(namespace, priority)
	select {
	case <-w.given:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	waits := s.lines.remove(w)
	s.mu.Unlock()
	if !waits {
		s.Give() // the slot came at the same moment
	}
	return ctx.Err()
}

func (s *Slots) join(namespace string, priority int) *waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &waiter{given: make(chan struct{})}
	if s.free > 0 {
		s.free--
		close(w.given)
	} else {
		s.lines.push(w, namespace, priority)
	}
	return w
}

// Give gives a slot back, to the next caller that waits.
func (s *Slots) Give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, _, ok := s.lines.pop(); ok {
		close(w.given)
		return
	}
	s.free++
}
