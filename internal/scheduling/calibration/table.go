package calibration

import (
	"math"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
)

// Table counts ratios of actual to forecast waits. The zero value is empty.
type Table struct {
	// all counts all requests, kin counts them by size and length, and alike by size,
	// length and the number of entries ahead.
	all   ratios
	kin   [sizes][lengths]ratios
	alike [sizes][lengths][crowds]ratios
	// drift is subtracted from margin. It corrects for counts that no longer hold.
	drift float64
}

// Category is a class of requests with similar waits.
type Category struct{ Size, Length, Ahead int }

// Known reports whether the category exists.
func (l Category) Known() bool {
	return l.Size >= 0 && l.Size < sizes && l.Length >= 0 && l.Length < lengths && l.Ahead >= 0 && l.Ahead < crowds
}

// sizes is the number of size classes: up to one GPU, less than a node, and a node or
// more.
const sizes = 3

// lengths is the number of length classes: up to half an hour, up to two hours, and
// longer. Requests that arrive later can overtake long ones, and a forecast cannot know
// them.
const lengths = 3

// crowds is the number of classes of entries ahead: fewer than 4, 16, 64, and more. The
// fewer entries must end first, the more a single end matters.
const crowds = 4

// AheadClass returns the class of n entries ahead.
func AheadClass(n int) int {
	class, upTo := 0, 4
	for class < crowds-1 && n >= upTo {
		class, upTo = class+1, 4*upTo
	}
	return class
}

// Add counts an actual wait. Within reports whether it was in the forecast range.
func (t *Table) Add(like Category, came, foreseen estimate.Span, within bool) {
	i := ratioOf(came, foreseen)
	t.all.add(i)
	t.kin[like.Size][like.Length].add(i)
	t.alike[like.Size][like.Length][like.Ahead].add(i)
	// The counts hold only while the workload stays the same. So every miss widens
	// later ranges a little, and every hit narrows them by about a quarter of that. In
	// the long run a little more than four of five forecasts are hits.
	if within {
		t.drift = max(-drifts, t.drift-drifting)
	} else {
		t.drift = min(drifts, t.drift+4.25*drifting)
	}
}

// drifting is the change of the drift for each hit. drifts is the largest drift.
const (
	drifting = 0.002
	drifts   = 0.05
)

// ratios counts ratios of actual to forecast waits, by their logarithm.
type ratios struct {
	w [ratioBuckets]float64
	n float64
}

const (
	// ratioBuckets are a fifth of a doubling wide each, from 1/256 to 256.
	perDoubling  = 5
	ratioBuckets = 16*perDoubling + 1
	// fades is the number of observations that remain after a halving of all counts.
	// It happens at twice that number, so old observations fade.
	fades = 250
	// worth is the weight of the next wider group, in observations.
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

// over mixes the counts with a wider group's distribution, which sums to one.
func (r *ratios) over(wide *[ratioBuckets]float64) [ratioBuckets]float64 {
	var out [ratioBuckets]float64
	for i := range out {
		out[i] = (r.w[i] + float64(worth*wide[i])) / (r.n + worth)
	}
	return out
}

// ratioOf returns the bucket of a ratio.
func ratioOf(came, foreseen estimate.Span) int {
	x := math.Log2(float64(came)/float64(foreseen))*perDoubling + ratioBuckets/2
	return int(min(ratioBuckets-1, max(0, math.Round(x))))
}

// unlearned is the distribution of ratios before the first observation: a normal
// distribution of the logarithm. Four fifths of it lie between a half and two.
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

// margin is the part of the observations that lies below the range, and the part above
// it. It is less than a tenth because waits at the same time are correlated: one burst
// of requests gives many similar observations, and the next burst may differ.
const margin = 0.06

// Spread returns the range of a wait as multiples of its forecast.
func (t *Table) Spread(l Category) (low, high float64) {
	w := t.all.over(&unlearned)
	w = t.kin[l.Size][l.Length].over(&w)
	w = t.alike[l.Size][l.Length][l.Ahead].over(&w)
	out := margin - t.drift
	return quantileOf(&w, out), quantileOf(&w, 1-out)
}

// quantileOf returns the ratio at a quantile of the distribution.
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
