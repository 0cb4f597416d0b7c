package scheduling

import (
	"math"

	"github.com/muster-dev/muster/internal/scheduling/calibration"
	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/placement"
)

// Expected is when a waiting request is expected to start.
type Expected struct {
	// From and To are the ends of the range in which it starts in four of five
	// cases, as far as that is known.
	From, To Instant
	// Basis is what the run times of most of the work that has to end before
	// are known from.
	Basis estimate.Basis
	// Later is true where rules about other pods, which are left out, may make it
	// later.
	Later bool
}

// Foresight says when waiting requests will start, and learns from how that
// came true. The zero value has learned nothing. It is used together with one
// core, by one goroutine at a time.
type Foresight struct {
	// open are the forecasts that have not come true yet, by UID.
	open map[string]forecast
	// ratios are those of true to foreseen waits.
	ratios calibration.Table
}

// forecast is what was foreseen of a request, and when.
type forecast struct {
	at   Instant
	wait estimate.Span
	// like is what it is compared with.
	like calibration.Category
	// from and to are the range that was given.
	from, to Instant
}

// maxOpen is how many forecasts are remembered until they come true.
const maxOpen = 4096

// Forecast says when a waiting request will start; false if nothing can be
// said: it does not wait, may not start, or never fits. The core is left as it
// is.
func (f *Foresight) Forecast(c *Core, uid string, now Instant) (Expected, bool) {
	e := c.entries[uid]
	if e == nil || e.placed || c.notNow(e, now) != nil || e.lost {
		return Expected{}, false
	}
	// What is beyond a minimum is given back to whoever waits.
	defer c.lifting()()
	c.raiseExtras()
	o, _ := c.newOutlook(e, now)
	if o.Target == nil {
		return Expected{}, false
	}
	starts := o.Starts()
	if len(starts) <= o.Scenarios/2 || starts[len(starts)/2] > tooFar {
		return Expected{}, false
	}
	middle := max(aWhile, starts[len(starts)/2])
	like := calibration.Category{Size: c.sizeOf(e), Length: lengthOf(e), Ahead: calibration.AheadClass(o.Target.Order)}
	low, high := f.ratios.Spread(like)
	x := Expected{Basis: o.Basis, Later: e.req.peers() || c.shunners > 0}
	x.From = min(now.add(scaled(middle, low)), now.add(max(aWhile, starts[len(starts)/10])))
	x.To = max(now.add(scaled(middle, high)), now.add(starts[len(starts)-1-len(starts)/10]))
	if f.open == nil {
		f.open = map[string]forecast{}
	}
	if _, known := f.open[uid]; !known && len(f.open) < maxOpen {
		f.open[uid] = forecast{at: now, wait: middle, like: like, from: x.From, to: x.To}
	}
	return x, true
}

// Started tells when a request started.
func (f *Foresight) Started(uid string, at Instant) {
	open, ok := f.open[uid]
	if !ok {
		return
	}
	delete(f.open, uid)
	wait := max(aWhile, at.since(open.at))
	f.ratios.Add(open.like, wait, open.wait, wait >= open.from.since(open.at) && wait <= open.to.since(open.at))
}

func lengthOf(e *entry) int {
	switch half := lengthClass(estimate.Hour / 2); {
	case e.length <= half:
		return 0
	case e.length <= half+2:
		return 1
	}
	return 2
}

func (c *Core) sizeOf(e *entry) int {
	switch {
	case c.wide(e):
		return 2
	case e.gpus > placement.Whole:
		return 1
	}
	return 0
}

// Forget tells that a request is gone without having started.
func (f *Foresight) Forget(uid string) { delete(f.open, uid) }

// tooFar is how far ahead nothing is said any more: a year.
const tooFar = 365 * 24 * estimate.Hour

// aWhile is the shortest wait that is told from none.
const aWhile = estimate.Minute

// scaled is a multiple of a span, and at least a while.
func scaled(d estimate.Span, by float64) estimate.Span {
	return max(aWhile, estimate.Span(min(float64(d)*by, math.MaxInt64/8)))
}
