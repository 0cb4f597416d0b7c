package estimate

// Estimate is the distribution of the whole run time of a piece of work.
type Estimate struct{ w weights }

// beyond is by how much the remaining time is taken to grow with the age of
// work that has outrun everything that was expected: as long again as half of
// what it has run.
const beyond = 0.5

// tail is the part of the distribution that lies beyond an age: the first
// bucket that reaches past it, how much of that bucket is still possible, and
// the sum from there on. The sum is 0 if nothing is left.
func (e *Estimate) tail(age Span) (from int, part, sum float64) {
	from = bucket(age + 1)
	part = 1
	if low := floor(from); age > low && edges[from] > low {
		part = float64(edges[from]-age) / float64(edges[from]-low)
	}
	if part > 0 {
		sum = e.w[from] * part
	}
	for i := from + 1; i < size; i++ {
		sum += e.w[i]
	}
	return from, part, sum
}

// negligible is a sum below which nothing is taken to be left of a
// distribution.
const negligible = 1e-6

// Mean is the expected remaining run time of work that has run for age.
func (e *Estimate) Mean(age Span) Span {
	from, part, sum := e.tail(age)
	if sum < negligible {
		return outrun(age)
	}
	total := 0.0
	for i := from; i < size; i++ {
		w, low := e.w[i], floor(i)
		if i == from {
			w, low = w*part, max(low, age)
		}
		total += w * (float64(low+edges[i])/2 - float64(age))
	}
	return max(Second, Span(total/sum))
}

// Quantile is the remaining run time that work which has run for age does not
// exceed with probability q, from 0 to 1.
func (e *Estimate) Quantile(age Span, q float64) Span {
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
