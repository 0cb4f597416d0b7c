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

// Reserve takes n tokens of a namespace, at most a burst, and returns after how long they
// are there.
func (p *Pace) Reserve(namespace string, n int, now time.Time) time.Duration {
	return p.bucket(namespace, now).ReserveN(now, min(n, p.burst)).DelayFrom(now)
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
