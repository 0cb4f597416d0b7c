package estimate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// steadily are the reports of work that takes so long in all, from its start or
// from a part that was done before, one every step until the run time at.
func steadily(total, at, step Span, from float64) Reports {
	var out Reports
	for ran := step; ran <= at; ran += step {
		out = append(out, Point{Ran: ran, Done: from + (1-from)*float64(ran)/float64(total)})
	}
	return thinned(out)
}

// thinned keeps as many points as are kept in truth, spread over the run time.
func thinned(r Reports) Reports {
	for len(r) > 8 {
		drop := 1
		for i := 2; i+1 < len(r); i++ {
			if r[i+1].Ran-r[i-1].Ran < r[drop+1].Ran-r[drop-1].Ran {
				drop = i
			}
		}
		r = slices.Delete(slices.Clone(r), drop, drop+1)
	}
	return r
}

func TestReportsThatAreTrue(t *testing.T) {
	tests := []struct {
		name      string
		total, at Span
		from      float64
	}{
		{"ten hours, halfway", 10 * Hour, 5 * Hour, 0},
		{"ten hours, near the end", 10 * Hour, 9*Hour + 50*Minute, 0},
		{"ten days, the last hour", 240 * Hour, 239 * Hour, 0},
		{"an hour, early", Hour, 6 * Minute, 0},
		{"goes on from a checkpoint", 2 * Hour, Hour, 0.8},
	}
	bases := map[string]Evidence{"nothing": {}, "much too long": {Declared: 2000 * Hour}, "much too short": {Declared: 10 * Minute}, "a limit": {Limit: 300 * Hour}}
	for _, tt := range tests {
		for name, e := range bases {
			t.Run(tt.name+", declared "+name, func(t *testing.T) {
				b := &Book{}
				e.Reports = steadily(tt.total, tt.at, tt.at/20, tt.from)
				if b.Basis(e) != BasisProgress {
					t.Fatalf("it rests on %s", b.Basis(e))
				}
				x := b.Estimate(e)
				left := tt.total - tt.at
				if got := x.Quantile(tt.at, 0.5); got < left/2 || got > 2*left {
					t.Errorf("the median is %d min, in truth %d remain", got/Minute, left/Minute)
				}
				if low, high := x.Quantile(tt.at, 0.1), x.Quantile(tt.at, 0.85); low > left || high < left {
					t.Errorf("from %d to %d min, in truth %d remain", low/Minute, high/Minute, left/Minute)
				}
			})
		}
	}
}

func TestFewReportsAreReadWidely(t *testing.T) {
	b := &Book{}
	few := b.Estimate(Evidence{Reports: Reports{{Ran: 10 * Minute, Done: 0.01}}})
	many := b.Estimate(Evidence{Reports: steadily(1000*Minute, 500*Minute, 20*Minute, 0)})
	width := func(x Estimate, age Span) float64 {
		return float64(x.Quantile(age, 0.75)) / float64(x.Quantile(age, 0.25))
	}
	if a, b := width(few, 10*Minute), width(many, 500*Minute); a < 2*b {
		t.Errorf("one report is read within a factor of %.1f, twenty within %.1f", a, b)
	}
}

// What makes no sense is left out, and never does harm.
func TestReportsThatMakeNoSense(t *testing.T) {
	for name, r := range map[string]Reports{
		"none":          {},
		"nothing done":  {{Ran: Hour, Done: 0}},
		"no time":       {{Ran: 0, Done: 0.5}},
		"not a number":  {{Ran: Hour, Done: math.NaN()}},
		"infinite":      {{Ran: Hour, Done: math.Inf(1)}},
		"too much":      {{Ran: Hour, Done: 7}},
		"negative":      {{Ran: Hour, Done: -1}},
		"before it ran": {{Ran: -Hour, Done: 0.5}},
		"lost it all":   {{Ran: Hour, Done: 0.5}, {Ran: 2 * Hour, Done: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			b := &Book{}
			e := Evidence{Declared: 3 * Hour}
			want := b.Estimate(e)
			e.Reports = r
			got := b.Estimate(e)
			if got.Mean(Hour) != want.Mean(Hour) || b.Basis(e) != BasisDeclared {
				t.Errorf("%d min, want %d; it rests on %s", got.Mean(Hour)/Minute, want.Mean(Hour)/Minute, b.Basis(e))
			}
		})
	}
	t.Run("back in time", func(t *testing.T) {
		r := Reports{{Ran: Hour, Done: 0.1}, {Ran: Minute, Done: 0.2}}
		if got := r.lawful(); len(got) != 1 {
			t.Errorf("got %v", got)
		}
	})
	t.Run("back to a checkpoint", func(t *testing.T) {
		r := Reports{{Ran: Hour, Done: 0.1}, {Ran: 2 * Hour, Done: 0.5}, {Ran: 3 * Hour, Done: 0.3}, {Ran: 4 * Hour, Done: 0.4}}
		if c, ok := r.claim(); !ok || c.left < 5*Hour || c.left > 7*Hour {
			t.Errorf("got %+v", c)
		}
	})
}

// liars say all kinds of things, of work that will in truth take for ever.
var liars = map[string]func(n int) float64{
	"99 % for ever":        func(int) float64 { return 0.99 },
	"all done for ever":    func(int) float64 { return 1 },
	"half of what is left": func(n int) float64 { return 1 - math.Exp2(-float64(n+1)) },
	"nearly there":         func(n int) float64 { return 1 - 0.5/float64(n+1) },
	"one step, then stuck": func(n int) float64 { return min(0.95, 0.9+0.05*float64(n)) },
	"straight, then stuck": func(n int) float64 { return min(0.99, 0.1*float64(n)) },
}

// A lie makes work look shorter by a bounded factor, and for a bounded time: it
// is forgotten as time contradicts it.
func TestLiesCostLittle(t *testing.T) {
	const step = 5 * Minute
	for name, say := range liars {
		t.Run(name, func(t *testing.T) {
			b := &Book{}
			e := Evidence{Declared: 20 * Hour}
			plain := b.Estimate(e)
			var all Reports
			believed := Span(0)
			for n := range 480 { // forty hours
				age := Span(n+1) * step
				all = thinned(append(all, Point{Ran: age, Done: say(n)}))
				e.Reports = all
				x := b.Estimate(e)
				got, want := x.Mean(age), plain.Mean(age)
				if float64(got) < 0.09*float64(want) {
					t.Fatalf("at %d min it is taken for %d min, without the lie for %d", age/Minute, got/Minute, want/Minute)
				}
				if got < want/2 {
					believed += step
				}
			}
			if believed > 8*Hour {
				t.Errorf("it is believed by more than a class for %d of 40 hours", believed/Hour)
			}
		})
	}
	t.Run("silent after one lie", func(t *testing.T) {
		b := &Book{}
		e := Evidence{Declared: 20 * Hour}
		plain := b.Estimate(e)
		e.Reports = Reports{{Ran: 10 * Minute, Done: 0.99}}
		x := b.Estimate(e)
		if got, want := x.Mean(10*Minute), plain.Mean(10*Minute); got < want*45/100 {
			t.Errorf("one report makes %d min of %d", got/Minute, want/Minute)
		}
		if got, want := x.Mean(Hour), plain.Mean(Hour); got < want*9/10 {
			t.Errorf("after an hour it is still taken for %d min of %d", got/Minute, want/Minute)
		}
	})
}

// How reports came true is learned by group: one whose reports always let
// expect a tenth of the time is read so, one whose reports are true is not.
func TestReportsAreCalibrated(t *testing.T) {
	b := &Book{}
	liar, honest := []string{"user/liar"}, []string{"user/honest"}
	optimist := func(at Span) Reports { // says 90 % is done at a tenth of the time
		return Reports{{Ran: at / 3, Done: 0.3}, {Ran: at * 2 / 3, Done: 0.6}, {Ran: at, Done: 0.9}}
	}
	mean := func(like []string, r Reports) Span {
		x := b.Estimate(Evidence{Like: like, Reports: r, Declared: 100 * Hour})
		return x.Quantile(r[len(r)-1].Ran, 0.5)
	}
	before := mean(liar, optimist(Hour))
	for range 40 {
		b.Observe(Evidence{Like: liar, Declared: 100 * Hour, Reports: optimist(Hour)}, 10*Hour)
		b.Observe(Evidence{Like: honest, Declared: 100 * Hour, Reports: steadily(10*Hour, 9*Hour, Hour, 0)}, 10*Hour)
	}
	after := mean(liar, optimist(Hour))
	if before > 30*Minute || after < 4*Hour {
		t.Errorf("the liar was read as %d min, and now as %d", before/Minute, after/Minute)
	}
	if got := mean(honest, steadily(10*Hour, 9*Hour, Hour, 0)); got > 2*Hour {
		t.Errorf("the honest is read as %d min", got/Minute)
	}
}

// For any reports: quantiles rise, means are positive and bounded, a shorter way
// to go never looks longer by more than what the spread explains, and equal
// evidence gives equal bits.
func TestAnyReports(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for range 3000 {
		var r Reports
		ran, done := Span(0), rng.Float64()*0.5
		for range rng.IntN(10) {
			ran += Span(rng.Int64N(int64(10 * Hour)))
			done += rng.Float64() * 0.2
			p := Point{Ran: ran, Done: min(1, done)}
			switch rng.IntN(12) {
			case 0:
				p.Done = rng.Float64()*20 - 10
			case 1:
				p.Done = math.NaN()
			case 2:
				p.Ran = Span(rng.Int64()) - math.MaxInt64/2
			}
			r = append(r, p)
		}
		e := Evidence{Reports: r}
		switch rng.IntN(3) {
		case 0:
			e.Declared = Span(rng.Int64N(int64(100 * Hour)))
		case 1:
			e.Limit = Span(rng.Int64N(int64(100 * Hour)))
		}
		b := &Book{}
		if rng.IntN(2) == 0 {
			b.Observe(e, Span(rng.Int64N(int64(50*Hour))))
		}
		x, y := b.Estimate(e), b.Estimate(Evidence{Declared: e.Declared, Limit: e.Limit, Reports: slices.Clone(r)})
		age := Span(rng.Int64N(int64(100 * Hour)))
		last := Span(0)
		for q := 0.0; q <= 1; q += 0.1 {
			got := x.Quantile(age, q)
			if got < last || got < Second {
				t.Fatalf("%v: at %d quantile %.1f is %d after %d", e, age, q, got, last)
			}
			if other := y.Quantile(age, q); other != got {
				t.Fatalf("%v: %d and %d from the same evidence", e, got, other)
			}
			last = got
		}
		if from, to := x.Range(age); from < Second || to < from || to > 20*longest {
			t.Fatalf("%v: at %d the range is from %d to %d", e, age, from, to)
		}
		m := x.Mean(age)
		if m < Second || m > 20*longest || m != y.Mean(age) {
			t.Fatalf("%v: at %d the mean is %d, and %d", e, age, m, y.Mean(age))
		}
	}
}

func BenchmarkMeanOfReports(b *testing.B) {
	e := (&Book{}).Estimate(Evidence{Declared: 5 * Hour, Reports: steadily(10*Hour, 5*Hour, 30*Minute, 0)})
	b.ReportAllocs()
	for b.Loop() {
		e.Mean(6 * Hour)
	}
}

func BenchmarkQuantileOfReports(b *testing.B) {
	e := (&Book{}).Estimate(Evidence{Declared: 5 * Hour, Reports: steadily(10*Hour, 5*Hour, 30*Minute, 0)})
	b.ReportAllocs()
	for b.Loop() {
		e.Quantile(6*Hour, 0.7)
	}
}
