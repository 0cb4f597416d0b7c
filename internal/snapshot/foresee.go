package snapshot

import (
	"time"

	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// foreseePart is how much of the time forecasts may take.
const foreseePart = 20

// foresight learns from how the scheduler's own forecasts came true: of what
// waits, one after the other is asked for, the newest first, and noted.
type foresight struct {
	*scheduling.Foresight
	// asked are the requests that were asked for.
	asked map[string]bool
	// next is when the next one may be.
	next time.Time
}

// foresee makes a forecast for one request that waits, if there is time for it.
// It returns when it wants to be called again; zero if nothing is left to do.
func (l *Loop) foresee(now time.Time) time.Time {
	f := &l.foresight
	if now.Before(f.next) {
		return f.next
	}
	uid, ok := l.core.Newest(conversion.Instant(now), func(uid string) bool { return !f.asked[uid] })
	if !ok {
		return time.Time{}
	}
	began := time.Now()
	f.asked[uid] = true
	f.Forecast(l.core, uid, conversion.Instant(now))
	f.next = now.Add(foreseePart * time.Since(began))
	return f.next
}

// started tells that a request is placed, or gone.
func (f *foresight) started(uid string, now time.Time) {
	f.Started(uid, conversion.Instant(now))
	delete(f.asked, uid)
}

func (f *foresight) forget(uid string) {
	f.Forget(uid)
	delete(f.asked, uid)
}
