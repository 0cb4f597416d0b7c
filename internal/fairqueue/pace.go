package fairqueue

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Pace bounds how often something is done for each namespace, by a token bucket each.
// Its methods may be called side by side.
type Pace struct {
	perSecond rate.Limit
	burst     int

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
}

// NewPace makes a pace of so many a second for each namespace, and a burst of at least one.
func NewPace(perSecond float64, burst int) *Pace {
	return &Pace{perSecond: rate.Limit(perSecond), burst: max(1, burst), buckets: map[string]*rate.Limiter{}}
}

// longestWait bounds the delay of a reservation. Reservations that are not used, such as those of
// deleted objects, otherwise delay all later ones of their namespace without end.
const longestWait = 5 * time.Minute

// Reserve takes n tokens of a namespace and returns the delay until they are there, at most
// 5 minutes.
func (p *Pace) Reserve(namespace string, n int, now time.Time) (delay time.Duration) {
	b := p.bucket(namespace, now)
	for ; n > 0 && delay < longestWait; n -= p.burst {
		r := b.ReserveN(now, min(n, p.burst))
		if delay = r.DelayFrom(now); delay > longestWait {
			r.CancelAt(now)
		}
	}
	return min(delay, longestWait)
}

// Allow takes a token of a namespace if there is one.
func (p *Pace) Allow(namespace string, now time.Time) bool {
	return p.bucket(namespace, now).AllowN(now, 1)
}

// bucket returns the bucket of a namespace, and forgets those that are full: they are as
// new ones.
func (p *Pace) bucket(namespace string, now time.Time) *rate.Limiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.buckets[namespace]
	if b != nil {
		return b
	}
	for other, b := range p.buckets {
		if b.TokensAt(now) >= float64(p.burst) {
			delete(p.buckets, other)
		}
	}
	b = rate.NewLimiter(p.perSecond, p.burst)
	p.buckets[namespace] = b
	return b
}
