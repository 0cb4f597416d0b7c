package estimate

import "math"

// Point is one report of progress.
type Point struct {
	// Ran is for how long the work had run then, in all its attempts, and Done
	// the part of it that was done, from 0 to 1.
	Ran  Span
	Done float64
}

// Reports are the points that a piece of work reported in its present attempt,
// the first to the latest.
//
// What remains is reckoned from the rate of this attempt alone, between the
// first point and the latest: work that goes on from a checkpoint begins with
// much of it done. Where there is but one point, it is reckoned as if all of
// the run time so far had gone into it.
type Reports []Point

// lawful are the points that make sense: in order of time, from 0 to 1, and
// after the last at which less was done than before.
func (r Reports) lawful() Reports {
	begin, end := 0, 0
	for end < len(r) {
		p := r[end]
		if !(p.Done >= 0 && p.Done <= 1) || p.Ran < 0 || end > begin && p.Ran < r[end-1].Ran {
			break
		}
		if end > begin && p.Done < r[end-1].Done {
			begin = end
		}
		end++
	}
	return r[begin:end]
}

// claim is what reports come to.
type claim struct {
	// at is the run time of the latest report, and left what remains from there
	// on if all goes on as it did.
	at, left Span
	// settled is true where that rests on several reports of a good part of the
	// work.
	settled bool
	// weight is how much of the estimate rests on it, from 0 to 1.
	weight float64
	// tested is the part of the work in which its reports foresaw the end, from 0 to 1, and missed the
	// factor by which they may misjudge the remaining time, 1 or more.
	tested, missed float64
}

const (
	// earlyWeight and settledWeight are how much of an estimate rests on
	// reports, few or several, that nothing contradicts. The rest stays with
	// what was known without them: a report can make work look shorter by a
	// factor of ten at most.
	earlyWeight   = 0.5
	settledWeight = 0.9
	// settledPoints is how many points, and settledPart how much of the work
	// between them, make reports settled.
	settledPoints = 3
	settledPart   = 0.05
	// tolerance is by what factor reports may be overrun before they count for
	// less: work has slow passages.
	tolerance = 2
	// longest is more than anything is taken to last.
	longest = 10 * 365 * 24 * Hour
)

// claim works out what the reports come to; false if they say nothing of when
// the work will be done.
func (r Reports) claim() (claim, bool) {
	r = r.lawful()
	n := len(r)
	if n == 0 {
		return claim{}, false
	}
	last := r[n-1]
	left, ok := r.left(n)
	if !ok {
		return claim{}, false
	}
	c := claim{at: last.Ran, left: left, weight: earlyWeight}
	if n >= settledPoints && last.Done-r[0].Done >= min(settledPart, (1-r[0].Done)/2) {
		c.settled, c.weight = true, settledWeight
	}
	// What earlier reports came to has been put to the test since: by how much
	// the longest of them was overrun counts against the latest.
	if over := r.overrun() / tolerance; over > 1 {
		c.weight /= over * over
	}
	c.tested, c.missed = r.trial(c)
	return c, true
}

const (
	// testedPoints is the number of points that are tested against each other.
	testedPoints = 4
	// steady is the factor, either way, by which reports of steady work may misjudge a remaining time.
	steady = 1.2
	// worse is the amount, on a scale of logarithms, by which the next misjudgement may exceed the
	// worst of a few.
	worse = 1.5
	// mostMissed bounds the factor of a misjudgement.
	mostMissed = 1000
)

// trial tests reports. It returns the part of the work, between the first point and the latest, in
// which earlier points foresaw the same end as the latest. That counts for less if some did not. It
// also returns the factor by which the remaining time may be wrong, either way, by the worst error
// of earlier points.
func (r Reports) trial(c claim) (tested, missed float64) {
	n := len(r)
	if !c.settled || n < testedPoints || r[0].Done >= 1 {
		return 0, 1
	}
	worst := 0.0
	for i := 2; i < n; i++ { // the first two points are close together, or differ by how the work began
		if left, ok := r.left(i); ok {
			since := float64(c.at-r[i-1].Ran) + float64(c.left)
			worst = max(worst, math.Abs(math.Log(max(since, 1)/float64(max(left, 1)))))
		}
	}
	tested = (r[n-1].Done - r[0].Done) / (1 - r[0].Done)
	if off := worst / math.Log(steady); off > 1 {
		tested /= off * off
	}
	return tested, math.Exp(min(worse*worst, math.Log(mostMissed)))
}

// left is what remains after the first n points.
func (r Reports) left(n int) (Span, bool) {
	from, to := Point{}, r[n-1]
	if n > 1 && to.Done > r[0].Done {
		from = r[0]
	}
	if to.Done <= from.Done || to.Ran <= from.Ran {
		return 0, false
	}
	return Span(min(float64(longest), float64(to.Ran-from.Ran)*(1-to.Done)/(to.Done-from.Done))), true
}

// overrun is by what factor the latest point has outrun what the points before
// it let expect, at the most; 1 or less: by none. What was reckoned from a
// single point counts only while nothing has moved since: of work that went on
// from elsewhere it is no measure.
func (r Reports) overrun() float64 {
	most, last := 0.0, r[len(r)-1]
	for n := 1; n < len(r); n++ {
		if n == 1 && last.Done > r[0].Done {
			continue
		}
		if left, ok := r.left(n); ok {
			most = max(most, float64(last.Ran-r[n-1].Ran)/float64(max(left, Second)))
		}
	}
	return most
}

// ratiosOfClaims compare what reports let expect with what remained in truth:
// about halfway through them, early and settled ones apart.
func (r Reports) ratiosOfClaims(ran Span, each func(at int, settled bool)) {
	r = r.lawful()
	var told [2]bool
	for n := len(r)/2 + 1; n <= len(r); n++ {
		c, ok := r[:n].claim()
		if kind := kindOf(c.settled); ok && !told[kind] && ran >= c.at && c.left >= first {
			told[kind] = true
			each(ratioBucket(ran-c.at, c.left), c.settled)
		}
	}
}

// claimed is how the true remaining times relate to those reckoned from
// reports before anything was learned: wide where there are few, for the first
// steps of a program are not like the others; else about a factor of the square
// root of two either way, and a little of anything beyond.
func claimed(settled bool) weights {
	var w weights
	for i := range w {
		off := i - unity
		switch {
		case settled && off >= -1 && off <= 1:
			w[i] = 1
		case !settled && off >= -4 && off <= 4:
			w[i] = 1
		case off >= -5 && off <= 8:
			w[i] = 0.03
		}
	}
	return normalised(w)
}

// progressed mixes what reports let expect into an estimate that was made
// without them. As time passes the part of it that it contradicts counts less
// and less, for whoever asks how much is left at an age rules out all that has
// not come true by then.
func (b *Book) progressed(e Evidence, out Estimate) Estimate {
	c, ok := e.Reports.claim()
	if !ok || c.weight <= 0 {
		return out
	}
	r := claimed(c.settled)
	kind := &b.claims[kindOf(c.settled)]
	r = kind.all.over(&r)
	for i := len(e.Like) - 1; i >= 0; i-- {
		if g := kind.groups[e.Like[i]]; g != nil {
			r = g.over(&r)
		}
	}
	// 1. Shift the ratios to the time that is left; it counts from the latest
	// report on.
	late := &weights{}
	shift := bucket(c.left) - unity
	for i := range r {
		late[min(size-1, max(0, i+shift))] += r[i] * c.weight
	}
	// 2. What was known without: only what is beyond that report is possible.
	_, _, beyond := out.tail(c.at)
	if beyond < negligible {
		// It has outrun all that was expected: the rest is spread wide.
		out = Estimate{}
		out.w[min(size-1, bucket(c.at+outrun(c.at)))] = 1
		_, _, beyond = out.tail(c.at)
	}
	if beyond > 0 {
		for i := range out.w {
			out.w[i] *= (1 - c.weight) / beyond
		}
	}
	out.from, out.late, out.tested, out.left, out.missed = c.at, late, c.tested, c.left, c.missed
	return out
}

// claims is what was learned of how reports came true, by group.
type claims struct {
	groups map[string]*counts
	all    counts
}

func kindOf(settled bool) int {
	if settled {
		return 1
	}
	return 0
}

// observeClaims enters how the reports of work that has ended came true.
func (b *Book) observeClaims(e Evidence, ran Span) {
	e.Reports.ratiosOfClaims(ran, func(at int, settled bool) {
		kind := &b.claims[kindOf(settled)]
		kind.all.add(at)
		if kind.groups == nil {
			kind.groups = map[string]*counts{}
		}
		for _, group := range e.Like {
			if c := remember(kind.groups, group); c != nil {
				c.add(at)
			}
		}
	})
}
