package userfiles

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

const (
	// limit is the longest time of a call on one path.
	limit = 20 * time.Second
	// treeLimit is the longest time of a call that copies or removes a whole tree.
	treeLimit = 10 * time.Minute
	// idle is how long a helper lives after its last call.
	idle = 10 * time.Second
)

// Options configure [Helpers].
type Options struct {
	// Program is the path of the shim's program.
	Program string
	// Limit is the longest time of a call on one path. Default: 20 s.
	Limit time.Duration
	// TreeLimit is the longest time of a call that copies or removes a tree. Default: 10 min.
	TreeLimit time.Duration
	// Idle is how long a helper lives after its last call. Default: 10 s.
	Idle time.Duration
}

// Helpers starts helpers and ends them. Its methods may be called concurrently.
type Helpers struct {
	options Options

	mu     sync.Mutex
	closed bool
	users  map[string]*turn
	ending sync.WaitGroup // one for each process
}

// turn is a user with calls that wait or run, or with a helper.
type turn struct {
	calls   chan struct{} // one for each call that runs
	waiting int
	helper  *helper // nil: the next call starts one
}

// errClosed is the error of calls after Close.
var errClosed = errors.New("no helper for files of users is started any more")

// New returns Helpers. No process runs before the first call.
func New(o Options) *Helpers {
	if o.Limit <= 0 {
		o.Limit = limit
	}
	if o.TreeLimit <= 0 {
		o.TreeLimit = treeLimit
	}
	if o.Idle <= 0 {
		o.Idle = idle
	}
	return &Helpers{options: o, users: map[string]*turn{}}
}

// Close kills all helpers, and waits for their ends. A process that the kernel does not let end, since a
// file server hangs, is not waited for.
func (h *Helpers) Close() {
	h.mu.Lock()
	h.closed = true
	for _, t := range h.users {
		if t.helper != nil {
			t.helper.kill()
		}
	}
	h.mu.Unlock()
	ended := make(chan struct{})
	go func() { h.ending.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(h.options.Limit):
	}
}

// As returns the calls for a user. It starts nothing.
func (h *Helpers) As(u User) *Files { return &Files{helpers: h, user: u} }

// do makes one call, with a file for the helper if there is one.
func (h *Helpers) do(ctx context.Context, u User, most time.Duration, r request, with *os.File) (*reply, *os.File, error) {
	if err := errors.Join(u.check(), r.Place.check()); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	t, leave, err := h.enter(ctx, u)
	if err != nil {
		return nil, nil, h.explain(ctx, u, r, most, err)
	}
	defer leave()
	p, err := h.helper(u, t)
	if err != nil {
		return nil, nil, h.explain(ctx, u, r, most, err)
	}
	answer, file, err := p.call(ctx, r, with)
	if err != nil && !errors.Is(err, errLong) {
		// The helper is stopped, hangs, or has ended. Other calls may still get their answers from it.
		h.retire(t, p)
	}
	p.leave()
	if err == nil {
		err = answer.err()
	}
	if err != nil {
		closeAll(some(file))
		return nil, nil, h.explain(ctx, u, r, most, err)
	}
	return answer, file, nil
}

// explain names the user and the path of a call that failed.
func (h *Helpers) explain(ctx context.Context, u User, r request, most time.Duration, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s: its file server hangs, or its user has stopped the process that asks: %w", most, context.DeadlineExceeded)
	}
	return fmt.Errorf("%s as user %d: %w", r.Place, u.UID, err)
}

// enter waits until a call of a user may run: one user's calls that hang do not hold up another's.
func (h *Helpers) enter(ctx context.Context, u User) (t *turn, leave func(), err error) {
	key := u.key()
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil, nil, errClosed
	}
	if t = h.users[key]; t == nil {
		t = &turn{calls: make(chan struct{}, mostCalls)}
		h.users[key] = t
	}
	t.waiting++
	h.mu.Unlock()
	left := func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if t.waiting--; t.waiting == 0 && t.helper == nil {
			delete(h.users, key)
		}
	}
	select {
	case t.calls <- struct{}{}:
		return t, func() { <-t.calls; left() }, nil
	case <-ctx.Done():
		left()
		return nil, nil, ctx.Err()
	}
}

// helper returns the user's helper, entered for one call; it starts one if there is none.
func (h *Helpers) helper(u User, t *turn) (*helper, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errClosed
	}
	if t.helper != nil && t.helper.enter() {
		return t.helper, nil
	}
	p, err := start(h.options.Program, u, h.options.Idle)
	if err != nil {
		return nil, err
	}
	t.helper = p
	p.enter()
	h.ending.Go(func() {
		p.wait()
		h.retire(t, p)
		h.forget(u.key(), t)
	})
	return p, nil
}

// retire lets no further call use a helper.
func (h *Helpers) retire(t *turn, p *helper) {
	p.retire()
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.helper == p {
		t.helper = nil
	}
}

// forget drops a user without calls and helper.
func (h *Helpers) forget(key string, t *turn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.waiting == 0 && t.helper == nil && h.users[key] == t {
		delete(h.users, key)
	}
}
