package fencing

import (
	"context"
	"errors"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Sharing reads the fence for all who ask at about the same time: one read that
// begins after several have asked serves all of them. A read that is under way
// already when somebody asks does not serve them: it may have been answered
// before they saw what they ask about. It may be used concurrently.
type Sharing struct {
	live      client.Reader
	namespace string

	mu sync.Mutex
	// next is the read that has not begun, nil if nobody waits for one; under
	// way is true while another one is.
	next     *reading
	underWay bool
}

// reading is one read. Its results are set once done is closed; its turn has
// come once the channel begin is closed.
type reading struct {
	begin, done chan struct{}
	state       State
	err         error
}

// NewSharing returns one for the fence in a namespace, read past any cache.
func NewSharing(live client.Reader, namespace string) *Sharing {
	return &Sharing{live: live, namespace: namespace}
}

// Read returns what the fence says at a moment after it was called.
func (s *Sharing) Read(ctx context.Context) (State, error) {
	for {
		r, mine := s.join()
		if mine {
			s.carryOut(ctx, r)
			return r.state, r.err
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return State{}, ctx.Err()
		}
		if !errors.Is(r.err, errLeft) {
			return r.state, r.err
		}
	}
}

// errLeft is the result of a read whose reader went away.
var errLeft = errors.New("who was to read the fence for others has gone")

// join returns the read that has not begun, and whether the caller is to carry
// it out.
func (s *Sharing) join() (r *reading, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		return s.next, false
	}
	s.next = &reading{begin: make(chan struct{}), done: make(chan struct{})}
	if !s.underWay {
		close(s.next.begin)
		s.underWay = true
	}
	return s.next, true
}

// carryOut waits until it is this read's turn, closes the door behind those who
// came meanwhile, reads, and gives the turn to the next.
func (s *Sharing) carryOut(ctx context.Context, r *reading) {
	defer close(r.done)
	select {
	case <-r.begin:
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.next = nil
	s.mu.Unlock()
	r.state, r.err = Read(ctx, s.live, s.namespace)
	if ctx.Err() != nil {
		r.err = errors.Join(errLeft, ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-r.begin:
	default:
		return // it never had the turn
	}
	if s.underWay = s.next != nil; s.underWay {
		close(s.next.begin)
	}
}
