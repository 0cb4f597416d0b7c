package userapi

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/people/peer"
)

const (
	// preparing is the time limit of a preparation.
	preparing = 20 * time.Second
)

// prepared prepares each user once.
type prepared struct {
	prepare func(context.Context, peer.Peer) error

	mu    sync.Mutex
	users map[uint32]*preparation
}

// preparation is that of one user.
type preparation struct {
	turn chan struct{} // holds one value, taken while the user is prepared
	done bool
}

// before prepares the user of each request first. A user whom it cannot prepare is told
// why; the next request tries again.
func (p *prepared) before(next http.Handler) http.Handler {
	if p.prepare == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := peer.FromContext(r.Context())
		if err == nil {
			err = p.once(r.Context(), caller)
		}
		if err != nil {
			peer.Refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("preparing Muster for uid %d: %v", caller.UID, err))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (p *prepared) once(ctx context.Context, caller peer.Peer) error {
	p.mu.Lock()
	user := p.users[caller.UID]
	if user == nil {
		user = &preparation{turn: make(chan struct{}, 1)}
		user.turn <- struct{}{}
		p.users[caller.UID] = user
	}
	p.mu.Unlock()
	select {
	case <-user.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { user.turn <- struct{}{} }()
	if user.done {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, preparing)
	defer cancel()
	if err := p.prepare(ctx, caller); err != nil {
		return err
	}
	user.done = true
	return nil
}
