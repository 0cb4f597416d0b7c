package estimate

import (
	"math"
	"math/rand/v2"
	"testing"
)

// pace returns the duration of each part of work, as a factor, from a random source.
type pace func(*rand.Rand) func() float64

// paces are steady and unsteady ways, as training has them.
var paces = map[string]pace{
	"steady":        func(*rand.Rand) func() float64 { return func() float64 { return 1 } },
	"with noise":    func(r *rand.Rand) func() float64 { return func() float64 { return 0.7 + 0.6*r.Float64() } },
	"evaluations":   func(r *rand.Rand) func() float64 { return func() float64 { return 1 + 4*float64(r.IntN(10)/9) } },
	"slow at times": slow,
	"other paces":   others,
	"slower": func(r *rand.Rand) func() float64 {
		x, by := 1.0, 1+0.02*r.Float64()
		return func() float64 { x *= by; return x }
	},
	"stalls": func(r *rand.Rand) func() float64 { return func() float64 { return 1 + 60*float64(r.IntN(60)/59) } },
}

// slow is work that shares a machine now and then.
func slow(r *rand.Rand) func() float64 {
	left, by := 0, 1.0
	return func() float64 {
		if left--; left < 0 {
			left, by = 5+r.IntN(15), 1.0
			if r.IntN(3) == 0 {
				by = 3
			}
		}
		return by
	}
}

// others is work with a few phases, each of a pace of its own.
func others(r *rand.Rand) func() float64 {
	left, by := 0, 1.0
	return func() float64 {
		if left--; left < 0 {
			left, by = 20+r.IntN(30), math.Exp2(2*r.Float64()-1)
		}
		return by
	}
}

// work is a hundred parts of a length at a pace, with the run time at the end of each.
func work(r *rand.Rand, p pace) []Span {
	each := Span(float64(10*Second) * math.Exp2(9*r.Float64()))
	next, ends, at := p(r), make([]Span, 100), Span(0)
	for i := range ends {
		at += max(Second, Span(float64(each)*next()))
		ends[i] = at
	}
	return ends
}

// reported are the reports of work after so many of its parts.
func reported(ends []Span, parts int) Reports {
	var out Reports
	for i := range parts {
		out = thinned(append(out, Point{Ran: ends[i], Done: float64(i+1) / float64(len(ends))}))
	}
	return out
}

// TestRangesHold: four of five ends are in the range, at each way of going on, with and without
// knowledge of like work; steady work gets a narrow range.
func TestRangesHold(t *testing.T) {
	for name, p := range paces {
		for learned, earlier := range map[string]int{"nothing learned": 0, "learned": 60} {
			t.Run(name+", "+learned, func(t *testing.T) {
				r := rand.New(rand.NewPCG(3, 9))
				b := &Book{}
				for range earlier {
					ends := work(r, p)
					b.Observe(Evidence{Like: []string{"mine"}, Reports: reported(ends, 100)}, ends[99])
				}
				in, all, width := 0, 0, 0.0
				for range 1200 {
					ends := work(r, p)
					parts := 5 + r.IntN(94)
					e := Evidence{Like: []string{"mine"}, Reports: reported(ends, parts)}
					x, age := b.Estimate(e), ends[parts-1]
					from, to := x.Range(age)
					left := ends[99] - age
					if all++; from <= left && left <= to {
						in++
					}
					width += math.Log2(float64(to) / float64(from))
				}
				t.Logf("%d of %d are in the range, which is a factor of %.1f wide", in, all, math.Exp2(width/float64(all)))
				if in*5 < all*4 {
					t.Errorf("%d of %d ends are in the range", in, all)
				}
			})
		}
	}
}

// TestTheRangeOfSteadyWork: ten hours of steady progress, and two to go.
func TestTheRangeOfSteadyWork(t *testing.T) {
	b := &Book{}
	for name, e := range map[string]Evidence{"nothing declared": {}, "a limit": {Limit: 72 * Hour}, "declared": {Declared: 48 * Hour}} {
		e.Reports = steadily(12*Hour, 10*Hour, 15*Minute, 0)
		x := b.Estimate(e)
		from, to := x.Range(10 * Hour)
		t.Logf("%s: from %d to %d min", name, from/Minute, to/Minute)
		if from < 30*Minute || to > 4*Hour {
			t.Errorf("%s: two hours are left, and the range is %d to %d min", name, from/Minute, to/Minute)
		}
		if from > 100*Minute || to < 150*Minute {
			t.Errorf("%s: the range is %d to %d min, narrower than anything learned says", name, from/Minute, to/Minute)
		}
		// The order of work still rests on more than reports.
		plain := b.Estimate(Evidence{Limit: e.Limit, Declared: e.Declared})
		if got, want := x.Mean(10*Hour), plain.Mean(10*Hour); float64(got) < 0.09*float64(want) {
			t.Errorf("%s: the mean is %d min, without reports %d", name, got/Minute, want/Minute)
		}
		// Without another report it widens.
		if _, later := x.Range(20 * Hour); later < 2*Hour {
			t.Errorf("%s: eight hours after the expected end at most %d min are left", name, later/Minute)
		}
	}
}
