package estimate

import "math"

// size is the number of buckets. Bucket i holds run times from edge(i-1) to
// edge(i); the first begins at 0, the last has no end.
const size = 44

// first is the upper edge of the first bucket.
const first = 10 * Second

// edges are the upper edges of the buckets: 10 s to about 343 days.
var edges = makeEdges()

func makeEdges() [size]Span {
	var out [size]Span
	for i := range out {
		out[i] = Span(math.Round(float64(first) * math.Pow(2, float64(i)/2)))
	}
	return out
}

// bucket is where a run time falls.
func bucket(d Span) int {
	low, high := 0, size-1
	for low < high {
		if mid := (low + high) / 2; edges[mid] < d {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// floor is the lower edge of a bucket.
func floor(i int) Span {
	if i == 0 {
		return 0
	}
	return edges[i-1]
}

// weights is a distribution over the buckets; it need not sum to one.
type weights [size]float64

func (w *weights) sum() float64 {
	s := 0.0
	for _, x := range w {
		s += x
	}
	return s
}
