package scheduling

import (
	"math"

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
	// all, kin and alike count ratios of true to foreseen waits: of all, by size
	// and length, and by how many were ahead besides.
	all   ratios
	kin   [sizes][lengths]ratios
	alike [sizes][lengths][crowds]ratios
	// drift is by how much the margin is narrower than it would be if what was
	// learned held for ever.
	drift float64
}

// forecast is what was foreseen of a request, and when.
type forecast struct {
	at   Instant
	wait estimate.Span
	// like is what it is compared with.
	like category
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
	like := category{size: c.sizeOf(e), length: lengthOf(e), ahead: aheadClass(o.Target.Order)}
	low, high := f.spread(like)
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
	i := ratioOf(wait, open.wait)
	f.all.add(i)
	f.kin[open.like.size][open.like.length].add(i)
	f.alike[open.like.size][open.like.length][open.like.ahead].add(i)
	// What was learned holds only as long as the work stays alike: every miss
	// widens the ranges to come a little, every hit narrows them by a quarter of
	// that, so that a little more than four of five are hits in the long run.
	if wait < open.from.since(open.at) || wait > open.to.since(open.at) {
		f.drift = min(drifts, f.drift+4.25*drifting)
	} else {
		f.drift = max(-drifts, f.drift-drifting)
	}
}

// How fast the margin follows misses and hits, and how far.
const (
	drifting = 0.002
	drifts   = 0.05
)

// category is by what requests are compared that wait in the same way.
type category struct{ size, length, ahead int }

// sizes is how many sizes of requests are told apart: up to one GPU, less than
// a node, and a node or more.
const sizes = 3

// lengths is how many lengths of requests are told apart: up to half an hour,
// up to two hours, and longer. What comes later overtakes the longer, and
// nobody knows yet what comes.
const lengths = 3

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

// crowds is how many numbers of those ahead are told apart: fewer than 4, 16,
// 64, and more. The fewer ends it takes, the more a single one counts.
const crowds = 4

func aheadClass(n int) int {
	class, upTo := 0, 4
	for class < crowds-1 && n >= upTo {
		class, upTo = class+1, 4*upTo
	}
	return class
}

// ratios counts ratios of true to foreseen waits, by their logarithm.
type ratios struct {
	w [ratioBuckets]float64
	n float64
}

const (
	// ratioBuckets are a fifth of a doubling wide each, from 1/256 to 256.
	perDoubling  = 5
	ratioBuckets = 16*perDoubling + 1
	// fades is after how many observations the old ones begin to fade.
	fades = 250
	// worth is how many observations the next wider group is worth.
	worth = 8
)

func (r *ratios) add(i int) {
	r.w[i]++
	r.n++
	if r.n >= 2*fades {
		for k := range r.w {
			r.w[k] /= 2
		}
		r.n /= 2
	}
}

// over mixes the counts over a wider distribution, which sums to one.
func (r *ratios) over(wide *[ratioBuckets]float64) [ratioBuckets]float64 {
	var out [ratioBuckets]float64
	for i := range out {
		out[i] = (r.w[i] + float64(worth*wide[i])) / (r.n + worth)
	}
	return out
}

// ratioOf is the bucket of a ratio.
func ratioOf(came, foreseen estimate.Span) int {
	x := math.Log2(float64(came)/float64(foreseen))*perDoubling + ratioBuckets/2
	return int(min(ratioBuckets-1, max(0, math.Round(x))))
}

// unlearned is what ratios are taken to be before any was seen: a bell over
// the logarithm, of which four fifths lie between a half and the double.
var unlearned = func() [ratioBuckets]float64 {
	var w [ratioBuckets]float64
	sum := 0.0
	for i := range w {
		x := float64(i-ratioBuckets/2) / perDoubling
		w[i] = math.Exp(-x * x / 2 / (0.78 * 0.78))
		sum += w[i]
	}
	for i := range w {
		w[i] /= sum
	}
	return w
}()

// margin is the part of the cases learned from that lies below the range, and
// above it. It is less than a tenth because requests that wait at the same time
// share their fate: what comes true for one was often learned from one wave,
// and comes true in the next for fewer.
const margin = 0.06

// spread is between which multiples of what was foreseen the wait lies.
func (f *Foresight) spread(l category) (low, high float64) {
	w := f.all.over(&unlearned)
	w = f.kin[l.size][l.length].over(&w)
	w = f.alike[l.size][l.length][l.ahead].over(&w)
	out := margin - f.drift
	return quantileOf(&w, out), quantileOf(&w, 1-out)
}

// quantileOf is the ratio below which so much of the distribution lies.
func quantileOf(w *[ratioBuckets]float64, q float64) float64 {
	sum := 0.0
	for _, x := range w {
		sum += x
	}
	left := q * sum
	for i, x := range w {
		if x >= left && x > 0 {
			at := float64(i-ratioBuckets/2) - 0.5 + left/x
			return math.Exp2(at / perDoubling)
		}
		left -= x
	}
	return math.Exp2(float64(ratioBuckets/2) / perDoubling)
}

// scaled is a multiple of a span, and at least a while.
func scaled(d estimate.Span, by float64) estimate.Span {
	return max(aWhile, estimate.Span(min(float64(d)*by, math.MaxInt64/8)))
}
