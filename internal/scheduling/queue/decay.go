package queue

// DefaultHalfLife is 24 hours in nanoseconds.
const DefaultHalfLife = int64(24 * 3600 * 1e9)

// ln2 powers over factorials: the series of 2^-x = exp(-x ln 2) for x in
// [0, 1); the first term left out is below 1e-20.
var series = func() [20]float64 {
	const ln2 = 0.693147180559945309417232121458176568
	var terms [20]float64
	term := 1.0
	for n := range terms {
		terms[n] = term
		term = float64(term*-ln2) / float64(n+1)
	}
	return terms
}()

// remaining returns 2^(-elapsed/halfLife): what is left of a difference. It is
// computed without the library's function, which differs between machines, and
// without fused operations.
func remaining(elapsed, halfLife int64) float64 {
	if elapsed <= 0 {
		return 1
	}
	whole := elapsed / halfLife
	if whole > 1000 {
		return 0
	}
	x := float64(elapsed%halfLife) / float64(halfLife)
	sum := 0.0
	for n := len(series) - 1; n >= 0; n-- {
		sum = float64(sum*x) + series[n]
	}
	for ; whole > 0; whole-- {
		sum /= 2
	}
	return sum
}

// settle brings decayed usage forward over the time in which used was held.
func settle(decayed []float64, used []int64, left float64) {
	for c := range decayed {
		u := float64(used[c])
		decayed[c] = u + float64((decayed[c]-u)*left)
	}
}
