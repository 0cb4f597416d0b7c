package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/data"
)

const (
	// leaseTurn is after which time another lease is taken: collections wait for those
	// that are older than what they are about to remove.
	leaseTurn = 10 * time.Minute
	// leaseIdle is after which time without a write it is given back.
	leaseIdle = time.Minute
)

// leases have one lease for many sessions: taking one for each commit would cost more
// than the commit.
type leases struct {
	store *data.Store
	mu    sync.Mutex
	now   *held
	// retired says that nobody looks after it any more: who still takes a lease has it
	// alone.
	retired bool
}

// held is one lease and who uses it.
type held struct {
	*data.Lease
	// taken is from when on it stands.
	taken time.Time
	used  time.Time
	users int
	over  bool
}

// take is a lease, which has to be given back.
func (l *leases) take(ctx context.Context) (*held, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != nil && (l.now.Lost() || time.Since(l.now.taken) > leaseTurn) {
		l.end(ctx)
	}
	if l.now == nil {
		lease, err := l.store.Pin(ctx)
		if err != nil {
			return nil, err
		}
		// Round removes the monotonic clock, which stands still while the machine sleeps.
		l.now = &held{Lease: lease, taken: time.Now().Round(0)}
	}
	h := l.now
	h.users++
	if l.retired {
		l.now, h.over = nil, true
	}
	return h, nil
}

// give gives one back that was taken.
func (l *leases) give(ctx context.Context, h *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h.users--
	h.used = time.Now()
	if h.over && h.users == 0 {
		_ = h.Release(ctx) // what stays behind ends by itself
	}
}

// end lets no more use the lease.
func (l *leases) end(ctx context.Context) {
	h := l.now
	l.now, h.over = nil, true
	if h.users == 0 {
		_ = h.Release(ctx) // what stays behind ends by itself
	}
}

// rest gives the lease back if nobody has used it for a while.
func (l *leases) rest(ctx context.Context, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != nil && l.now.users == 0 && now.Sub(l.now.used) > leaseIdle {
		l.end(ctx)
	}
}

// retire says that nobody will look after it, unless it has a lease: then it is false.
func (l *leases) retire() bool {
	if !l.mu.TryLock() {
		return false // somebody takes one
	}
	defer l.mu.Unlock()
	l.retired = l.now == nil
	return l.retired
}

// close gives the lease back.
func (l *leases) close(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != nil {
		l.end(ctx)
	}
}
