package estimate

// Estimate is the distribution of the whole run time of a piece of work.
type Estimate struct {
	w weights
	// late, if any, is the part that rests on reports of progress: it is over
	// the time from the run time from on, so that the little that remains of
	// long work is told as finely as short work.
	late *weights
	from Span
	// tested is the part of the work in which reports were tested, from 0 to 1.
	tested float64
	// left is the remaining time by the reports at that point, and missed the factor by which it may
	// be wrong, either way; 1 or less: unknown.
	left   Span
	missed float64
}

// beyond is by how much the remaining time is taken to grow with the age of
// work that has outrun everything that was expected: as long again as half of
// what it has run.
const beyond = 0.5

// tail is the part of the distribution that lies beyond an age: the first
// bucket that reaches past it, how much of that bucket is still possible, and
// the sum from there on. The sum is 0 if nothing is left.
func (e *Estimate) tail(age Span) (from int, part, sum float64) { return e.w.tail(age) }

func (w *weights) tail(age Span) (from int, part, sum float64) {
	from = bucket(age + 1)
	part = 1
	if low := floor(from); age > low && edges[from] > low {
		part = float64(edges[from]-age) / float64(edges[from]-low)
	}
	if part > 0 {
		sum = w[from] * part
	}
	for i := from + 1; i < size; i++ {
		sum += w[i]
	}
	return from, part, sum
}

// negligible is a sum below which nothing is taken to be left of a
// distribution.
const negligible = 1e-6

// Mean is the expected remaining run time of work that has run for age.
func (e *Estimate) Mean(age Span) Span {
	sum, total := e.w.moment(age)
	if e.late != nil {
		since, ahead := e.split(age)
		s, t := e.late.moment(since)
		sum, total = sum+s, total+t+s*float64(ahead)
	}
	if sum < negligible {
		return outrun(age)
	}
	return max(Second, Span(total/sum))
}

// split is how long after the latest report an age is, and how long before it:
// one of the two is 0.
func (e *Estimate) split(age Span) (since, ahead Span) {
	return max(0, age-e.from), max(0, e.from-age)
}

// moment is how much of the distribution lies beyond an age, and the sum of how
// far beyond, each by its weight.
func (w *weights) moment(age Span) (sum, total float64) {
	from, part, sum := w.tail(age)
	for i := from; i < size; i++ {
		x, low := w[i], floor(i)
		if i == from {
			x, low = x*part, max(low, age)
		}
		total += x * (float64(low+edges[i])/2 - float64(age))
	}
	return sum, total
}

// within is how much of the distribution lies between two ages.
func (w *weights) within(from, to Span) float64 {
	_, _, all := w.tail(from)
	_, _, rest := w.tail(to)
	return max(0, all-rest)
}

// mixedQuantile is Quantile where a part rests on reports: the least time by
// which enough of both parts has come.
func (e *Estimate) mixedQuantile(age Span, q float64) Span {
	since, ahead := e.split(age)
	_, _, sum := e.w.tail(age)
	_, _, late := e.late.tail(since)
	if sum += late; sum < negligible {
		return outrun(age)
	}
	low, high := Span(0), edges[size-1]+ahead
	for high-low > Second {
		middle := low + (high-low)/2
		come := e.w.within(age, age+middle)
		if middle > ahead {
			come += e.late.within(since, since+middle-ahead)
		}
		if come >= q*sum {
			high = middle
		} else {
			low = middle
		}
	}
	return max(Second, high)
}

// Quantile is the remaining run time that work which has run for age does not
// exceed with probability q, from 0 to 1.
func (e *Estimate) Quantile(age Span, q float64) Span {
	if e.late != nil {
		return e.mixedQuantile(age, q)
	}
	from, part, sum := e.tail(age)
	if sum < negligible {
		return outrun(age)
	}
	want, last := q*sum, age
	for i := from; i < size; i++ {
		w, low := e.w[i], floor(i)
		if i == from {
			w, low = w*part, max(low, age)
		}
		if w >= want && w > 0 {
			return max(Second, low-age+Span(want/w*float64(edges[i]-low)))
		}
		want -= w
		if w > 0 {
			last = edges[i]
		}
	}
	// Rounding left a little over: it belongs to the last bucket that counts.
	return max(Second, last-age)
}

// rare is the part of the cases on each side of a [Estimate.Range].
const rare = 0.1

// Range is the remaining run time of work that has run for age, in four of five cases.
//
// Reports never have all of the weight in the order of work, so that a lie costs little. That rest
// is more than a tenth of the cases and lies far beyond the estimate of the reports: it alone would
// be the upper end. It counts here only as far as reports are not tested.
func (e *Estimate) Range(age Span) (from, to Span) {
	x := e
	if e.late != nil && e.tested > 0 {
		tried := *e
		for i := range tried.w {
			tried.w[i] *= 1 - e.tested
		}
		x = &tried
	}
	from, to = x.Quantile(age, rare), x.Quantile(age, 1-rare)
	// Reports that misjudged before may do so again.
	if e.late != nil && e.missed > 1 {
		since, ahead := e.split(age)
		by := func(factor float64) Span {
			return max(Second, Span(min(float64(longest), float64(e.left)*factor))-since+ahead)
		}
		from, to = min(from, by(1/e.missed)), max(to, by(e.missed))
	}
	return from, to
}

// outrun is what is left of work that has run longer than was thought
// possible.
func outrun(age Span) Span {
	return max(Minute, Span(beyond*float64(age)))
}

// Exactly is the estimate of work that says itself how long it will run in
// all, such as by reporting its progress.
func Exactly(total Span) Estimate {
	var e Estimate
	e.w[bucket(max(0, total))] = 1
	return e
}
