package calibration

import (
	"math"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
)

// Table counts ratios of true to foreseen waits. The zero value has learned nothing.
type Table struct {
	// all, kin and alike are those of all, by size and length, and by how many were
	// ahead besides.
	all   ratios
	kin   [sizes][lengths]ratios
	alike [sizes][lengths][crowds]ratios
	// drift is by how much the margin is narrower than it would be if what was
	// learned held for ever.
	drift float64
}

// Category is by what requests are compared that wait in the same way.
type Category struct{ Size, Length, Ahead int }

// Known reports whether there is such a category.
func (l Category) Known() bool {
	return l.Size >= 0 && l.Size < sizes && l.Length >= 0 && l.Length < lengths && l.Ahead >= 0 && l.Ahead < crowds
}

// sizes is how many sizes of requests are told apart: up to one GPU, less than
// a node, and a node or more.
const sizes = 3

// lengths is how many lengths of requests are told apart: up to half an hour,
// up to two hours, and longer. What comes later overtakes the longer, and
// nobody knows yet what comes.
const lengths = 3

// crowds is how many numbers of those ahead are told apart: fewer than 4, 16,
// 64, and more. The fewer ends it takes, the more a single one counts.
const crowds = 4

// AheadClass is the class of a number of those ahead.
func AheadClass(n int) int {
	class, upTo := 0, 4
	for class < crowds-1 && n >= upTo {
		class, upTo = class+1, 4*upTo
	}
	return class
}

// Add counts a wait that came true, and whether it was within the range that was given.
func (t *Table) Add(like Category, came, foreseen estimate.Span, within bool) {
	i := ratioOf(came, foreseen)
	t.all.add(i)
	t.kin[like.Size][like.Length].add(i)
	t.alike[like.Size][like.Length][like.Ahead].add(i)
	// What was learned holds only as long as the work stays alike: every miss
	// widens the ranges to come a little, every hit narrows them by a quarter of
	// that, so that a little more than four of five are hits in the long run.
	if within {
		t.drift = max(-drifts, t.drift-drifting)
	} else {
		t.drift = min(drifts, t.drift+4.25*drifting)
	}
}

// How fast the margin follows misses and hits, and how far.
const (
	drifting = 0.002
	drifts   = 0.05
)

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

// Spread is between which multiples of what was foreseen the wait lies.
func (t *Table) Spread(l Category) (low, high float64) {
	w := t.all.over(&unlearned)
	w = t.kin[l.Size][l.Length].over(&w)
	w = t.alike[l.Size][l.Length][l.Ahead].over(&w)
	out := margin - t.drift
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
