package node

import (
	"sync"
	"time"
)

// tellLater is how long the news that a pod runs waits at most while others are
// being started: a start comes before what is told of one.
const tellLater = time.Second

// starts counts the pods of this machine that are on their way to their first
// process. The zero value is ready. Its methods may be called concurrently.
type starts struct {
	mu    sync.Mutex
	count int
	calm  chan struct{} // closed when the count is 0 again; nil: it is 0
}

// begin counts one more.
func (s *starts) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count++; s.count == 1 {
		s.calm = make(chan struct{})
	}
}

// end counts one less.
func (s *starts) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count--; s.count == 0 {
		close(s.calm)
		s.calm = nil
	}
}

// done is closed once nothing is being started; nil if nothing is now.
func (s *starts) done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calm
}

// started counts the worker's pod as on its way no longer, once it has something
// to say or is given up waiting for.
func (w *worker) started(now time.Time) {
	if w.starting && (w.telling() || w.over || w.ending() || !now.Before(w.born.Add(quiet))) {
		w.starting = false
		w.node.starts.end()
	}
}

// held returns until when the first news of a pod waits for others that start;
// zero: not. How a pod ended, and why it cannot start, never waits.
func (w *worker) held(now time.Time) time.Time {
	if w.sent != nil || w.over || w.ending() || w.outcome != "" || !w.ran() {
		return time.Time{}
	}
	calm := w.node.starts.done()
	if calm == nil {
		return time.Time{}
	}
	if w.tellBy.IsZero() {
		w.tellBy = now.Add(tellLater)
		w.task(func() {
			select {
			case <-calm:
				w.post(func() {})
			case <-w.ctx.Done():
			}
		})
	}
	if !now.Before(w.tellBy) {
		return time.Time{}
	}
	return w.tellBy
}
