package snapshot

import (
	"time"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
)

// jumpFrom is from how far on the clock counts as set, and not as a little
// fast or slow.
const jumpFrom = 5 * time.Second

// lookEvery is how often the clock is looked at while anything is waited for.
const lookEvery = time.Minute

// pace is what the clock showed last, and how much time had passed then.
type pace struct {
	wall    time.Time
	elapsed time.Duration
	begun   bool
}

// jump returns by how much the clock was set since it was last looked at: so
// much later, or earlier if it is negative; 0 if it was not. Passed is how much
// time has passed in all, by a clock that nobody sets. While a machine sleeps
// no time passes: it wakes to a clock that was set.
func (p *pace) jump(now time.Time, passed time.Duration) time.Duration {
	now = now.Round(0) // without what makes differences true
	before := *p
	*p = pace{wall: now, elapsed: passed, begun: true}
	if !before.begun {
		return 0
	}
	by := now.Sub(before.wall) - (passed - before.elapsed)
	if by.Abs() < jumpFrom {
		return 0
	}
	return by
}

// watchClock tells the core if the clock was set since the last pass.
func (l *Loop) watchClock(now time.Time) {
	by := l.pace.jump(now, l.options.Passed())
	if by == 0 {
		return
	}
	l.options.Log.Info("the clock was set, or the machine slept; nothing counts as having waited or run longer by that", "by", by.String())
	l.core.Shift(estimate.Span(by))
	l.foresight.Shift(estimate.Span(by))
	l.checked, l.queuesTold, l.reasons.last = l.checked.Add(by), l.queuesTold.Add(by), l.reasons.last.Add(by)
}
