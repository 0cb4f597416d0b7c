package userapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/muster-dev/muster/internal/people/peer"
)

// preparing is the time limit of a preparation.
const preparing = 20 * time.Second

// prepared prepares the user of each request first. A user who cannot be prepared is told
// why.
func prepared(prepare func(context.Context, peer.Peer) error, next http.Handler) http.Handler {
	if prepare == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := peer.FromContext(r.Context())
		if err == nil {
			ctx, cancel := context.WithTimeout(r.Context(), preparing)
			err = prepare(ctx, caller)
			cancel()
		}
		if err != nil {
			peer.Refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("preparing Muster for uid %d: %v", caller.UID, err))
			return
		}
		next.ServeHTTP(w, r)
	})
}
