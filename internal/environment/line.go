//go:build linux

package environment

import (
	"context"
	"sync"
)

// line has the requests that nobody looks at yet, by namespace. Each namespace has workers of its
// own, so a namespace with many requests, or slow ones, does not keep others waiting.
type line struct {
	// wide is the most workers of one namespace.
	wide int

	mu    sync.Mutex
	parts map[string]*part
}

// part is the line of one namespace.
type part struct {
	waiting []string
	workers int
}

// join adds a request. It reports whether the namespace needs one more worker, which then counts.
func (l *line) join(namespace, id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.parts[namespace]
	if p == nil {
		p = &part{}
		l.parts[namespace] = p
	}
	p.waiting = append(p.waiting, id)
	if p.workers == l.wide {
		return false
	}
	p.workers++
	return true
}

// next takes the oldest request of a namespace. If there is none, the worker that asks counts no more.
func (l *line) next(namespace string) (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.parts[namespace]
	if len(p.waiting) == 0 {
		if p.workers--; p.workers == 0 {
			delete(l.parts, namespace)
		}
		return "", false
	}
	id := p.waiting[0]
	p.waiting = p.waiting[1:]
	return id, true
}

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
