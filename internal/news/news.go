package news

import (
	"time"

	"golang.org/x/time/rate"
)

const (
	perSecond = 10
	atOnce    = 50
)

// Within is for how long news waits at most of which nothing depends.
const Within = 30 * time.Second

// New returns turns: 50 at once, and 10 more each second.
func New() *rate.Limiter { return rate.NewLimiter(perSecond, atOnce) }

// Turn takes a turn, and returns in how long it comes; 0: now. One that would come
// later than within is not taken: then that is how long to wait.
func Turn(turns *rate.Limiter, now time.Time, within time.Duration) time.Duration {
	turn := turns.ReserveN(now, 1)
	if !turn.OK() {
		return within
	}
	wait := turn.DelayFrom(now)
	if wait > within {
		turn.CancelAt(now)
		return within
	}
	return wait
}
