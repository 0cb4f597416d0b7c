package estimate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestGrid(t *testing.T) {
	// 1. The edges rise by the square root of two: every second one doubles.
	for i := 2; i < size; i++ {
		if edges[i] != 2*edges[i-2] && i%2 == 0 {
			t.Errorf("edge %d is %d, edge %d is %d", i, edges[i], i-2, edges[i-2])
		}
		if edges[i] <= edges[i-1] {
			t.Errorf("edge %d is not above the one before", i)
		}
	}
	// 2. A run time is in the bucket whose upper edge it does not pass.
	tests := []struct {
		at   Span
		want int
	}{
		{-1, 0}, {0, 0}, {1, 0}, {first, 0}, {first + 1, 1}, {edges[7], 7}, {edges[7] + 1, 8},
		{edges[size-2], size - 2}, {edges[size-2] + 1, size - 1}, {edges[size-1] + 1, size - 1}, {math.MaxInt64, size - 1},
	}
	for _, tt := range tests {
		if got := bucket(tt.at); got != tt.want {
			t.Errorf("bucket(%d) = %d, want %d", tt.at, got, tt.want)
		}
	}
	// 3. The grid reaches far enough: more than 300 days.
	if edges[size-1] < 300*24*Hour {
		t.Errorf("the last edge is %d h", edges[size-1]/Hour)
	}
}

// random makes an estimate with some empty buckets.
func random(rng *rand.Rand) Estimate {
	var e Estimate
	for range 1 + rng.IntN(12) {
		e.w[rng.IntN(size-4)] += rng.Float64()
	}
	e.w = normalised(e.w)
	return e
}

// remainder is the distribution of what remains after an age, cut into thin
// slices: how long, and how likely.
type slice struct{ left, weight float64 }

func remainder(e *Estimate, age Span) []slice {
	const cuts = 2000
	var out []slice
	for i := range size {
		low, high := float64(floor(i)), float64(edges[i])
		for k := range cuts {
			if at := low + (high-low)*(float64(k)+0.5)/cuts; at > float64(age) && e.w[i] > 0 {
				out = append(out, slice{at - float64(age), e.w[i] / cuts})
			}
		}
	}
	return out
}

func near(got Span, want float64) bool {
	return math.Abs(float64(got)-want) <= 0.01*want+2*float64(Second)
}

func TestMeanAndQuantileAreThoseOfTheDistribution(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		e := random(rng)
		age := Span(rng.Float64() * float64(edges[rng.IntN(size-4)]))
		left := remainder(&e, age)
		var sum, mean float64
		for _, s := range left {
			sum += s.weight
			mean += s.weight * s.left
		}
		if sum < 1e-3 {
			continue // Next to nothing is left: slices are too coarse for it.
		}
		if got := e.Mean(age); !near(got, mean/sum) {
			t.Errorf("age %d: mean %d, want %.0f", age, got, mean/sum)
		}
		for _, q := range []float64{0.1, 0.5, 0.75, 0.99} {
			got, below := e.Quantile(age, q), 0.0
			for _, s := range left {
				if s.left <= float64(got) {
					below += s.weight
				}
			}
			// One slice of the heaviest bucket is how exact this is; a gap
			// between buckets is bridged by either of its ends.
			if math.Abs(below/sum-q) > 0.01 {
				t.Errorf("age %d: %.2f is left below quantile %.2f", age, below/sum, q)
			}
		}
	}
}

func TestQuantilesRise(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for range 300 {
		e := random(rng)
		age := Span(rng.Int64N(int64(30 * 24 * Hour)))
		last := Span(0)
		for q := 0.0; q <= 1; q += 0.05 {
			got := e.Quantile(age, q)
			if got < last || got < Second {
				t.Fatalf("age %d: quantile %.2f is %d after %d", age, q, got, last)
			}
			last = got
		}
	}
}

func TestOutrun(t *testing.T) {
	e := Exactly(Hour)
	last := edges[bucket(Hour)]
	tests := []struct {
		age, mean Span
	}{
		{0, (floor(bucket(Hour)) + last) / 2},
		{last, last / 2}, // As long again as half of what it ran.
		{2 * last, last}, // And more, the longer it runs.
		{100 * last, 50 * last},
	}
	for _, tt := range tests {
		if got := e.Mean(tt.age); !near(got, float64(tt.mean)) {
			t.Errorf("age %d: %d, want %d", tt.age, got, tt.mean)
		}
	}
	short := Exactly(Second)
	if got := short.Mean(2 * first); got != Minute {
		t.Errorf("work of seconds that outran them has %d left, want a minute at least", got)
	}
	if got := short.Quantile(2*first, 0.9); got != Minute {
		t.Errorf("its quantile is %d", got)
	}
	whole := Exactly(-Hour)
	if got := whole.Mean(0); got != first/2 {
		t.Errorf("work that says it takes less than nothing has %d left", got)
	}
}

func mean(b *Book, e Evidence) Span {
	x := b.Estimate(e)
	return x.Mean(0)
}

// An owner who always says ten hours for ten minutes is believed less and
// less; one who is right stays believed.
func TestDeclarationsAreCalibrated(t *testing.T) {
	var b Book
	liar := Evidence{Like: []string{"user/liar"}, Declared: 10 * Hour}
	honest := Evidence{Like: []string{"user/honest"}, Declared: 10 * Hour}
	last := mean(&b, liar)
	if last < 2*Hour {
		t.Fatalf("before anything is learned, ten hours are read as %d min", last/Minute)
	}
	for i := range 60 {
		b.Observe(liar, 10*Minute)
		b.Observe(honest, 9*Hour)
		if i%10 != 9 {
			continue
		}
		got := mean(&b, liar)
		if got >= last {
			t.Errorf("after %d observations the mean is %d min, before %d", i+1, got/Minute, last/Minute)
		}
		last = got
	}
	if last > Hour {
		t.Errorf("after 60 observations the liar is still believed %d min", last/Minute)
	}
	if got := mean(&b, honest); got < 6*Hour {
		t.Errorf("the honest is believed %d min only", got/Minute)
	}
	// What he says still counts: twice the declaration, twice the time.
	twice := mean(&b, Evidence{Like: liar.Like, Declared: 20 * Hour})
	if ratio := float64(twice) / float64(last); ratio < 1.7 || ratio > 2.3 {
		t.Errorf("twice the declaration is read as %.2f times as long", ratio)
	}
}

// What declarations come to depends on how much is declared: here what is said
// to take one hour takes eight, and what is said to take ten takes a half.
func TestDeclarationsAreReadByTheirSize(t *testing.T) {
	var b Book
	all := []string{"all"}
	brief, quick := []string{"user/brief", "all"}, []string{"user/quick", "all"}
	for range 100 {
		b.Observe(Evidence{Like: all, Declared: Hour}, 8*Hour)
		b.Observe(Evidence{Like: all, Declared: 10 * Hour}, 30*Minute)
		// One needs a quarter of what others do who say so; another always says
		// ten hours, and is right.
		b.Observe(Evidence{Like: brief, Declared: 10 * Hour}, 8*Minute)
		b.Observe(Evidence{Like: quick, Declared: 10 * Hour}, 10*Hour)
	}
	for _, tt := range []struct {
		name     string
		like     []string
		declared Span
		low, top Span
	}{
		{"short ones are overrun", all, Hour, 5 * Hour, 9 * Hour},
		{"one who always says the same is believed", quick, 10 * Hour, 6 * Hour, 11 * Hour},
		{"one whose are shorter still", brief, 10 * Hour, 5 * Minute, 15 * Minute},
		{"he, too, overruns short ones", brief, Hour, 5 * Hour, 9 * Hour},
	} {
		x := b.Estimate(Evidence{Like: tt.like, Declared: tt.declared})
		if got := x.Quantile(0, 0.5); got < tt.low || got > tt.top {
			t.Errorf("%s: the median is %d min, want %d to %d", tt.name, got/Minute, tt.low/Minute, tt.top/Minute)
		}
	}
	long := b.Estimate(Evidence{Like: []string{"user/new", "all"}, Declared: 10 * Hour})
	if got := long.Quantile(0, 0.9); got > 12*Hour {
		t.Errorf("long ones of one who is new: 90 %% end within %d min, want 12 h at most: they are not overrun", got/Minute)
	}
}

func TestNothingRunsBeyondItsLimit(t *testing.T) {
	var b Book
	e := Evidence{Declared: Hour, Limit: Hour}
	for range 100 {
		b.Observe(Evidence{Declared: Hour}, 30*Hour)
	}
	estimate := b.Estimate(e)
	if got := estimate.Quantile(0, 1); got > edges[bucket(Hour)] {
		t.Errorf("it is taken to run for up to %d min", got/Minute)
	}
}

func TestHistoryFromTheNarrowestGroup(t *testing.T) {
	var b Book
	for range 50 {
		b.Observe(Evidence{Like: []string{"user/a", "all"}}, 3*Minute)
		b.Observe(Evidence{Like: []string{"user/b", "all"}}, 30*Hour)
	}
	a := b.Estimate(Evidence{Like: []string{"user/a", "all"}})
	c := b.Estimate(Evidence{Like: []string{"user/c", "all"}})
	if got := a.Quantile(0, 0.5); got > 5*Minute {
		t.Errorf("a's median is %d min", got/Minute)
	}
	if short, long := c.Quantile(0, 0.2), c.Quantile(0, 0.8); short > Hour || long < 10*Hour {
		t.Errorf("one who is new is taken for %d to %d min", short/Minute, long/Minute)
	}
	none := (&Book{}).Estimate(Evidence{})
	if p10, p90 := none.Quantile(0, 0.1), none.Quantile(0, 0.9); p90 < 100*p10 {
		t.Errorf("a guess is as narrow as %d to %d min", p10/Minute, p90/Minute)
	}
}

func TestOldObservationsFade(t *testing.T) {
	var b Book
	e := Evidence{Like: []string{"g"}}
	for range 3 * memory {
		b.Observe(e, Minute)
	}
	for range 2 * memory {
		b.Observe(e, 10*Hour)
	}
	x := b.Estimate(e)
	if got := x.Quantile(0, 0.5); got < 5*Hour {
		t.Errorf("the median is %d min long after it has changed", got/Minute)
	}
}

func TestGroupsAreBounded(t *testing.T) {
	var b Book
	for i := range maxGroups + 100 {
		b.Observe(Evidence{Like: []string{fmt.Sprint(i)}, Declared: Hour}, Minute)
	}
	if len(b.times) != maxGroups || len(b.ratios) != maxGroups {
		t.Errorf("%d groups of times and %d of ratios are kept", len(b.times), len(b.ratios))
	}
	b.Observe(Evidence{}, -1)
	if b.Version() != maxGroups+100 {
		t.Errorf("a negative time was entered")
	}
}

func TestEqualBooksEqualBytes(t *testing.T) {
	books := [2]Book{}
	rng := rand.New(rand.NewPCG(3, 1))
	groups := []string{"a", "b", "c", "d", "all"}
	for range 5000 {
		e := Evidence{Like: slices.Clone(groups[rng.IntN(len(groups)):])}
		if rng.IntN(2) == 0 {
			e.Declared = Span(rng.Int64N(int64(100 * Hour)))
		}
		ran := Span(rng.Int64N(int64(100 * Hour)))
		for i := range books {
			books[i].Observe(e, ran)
		}
	}
	for _, e := range []Evidence{{}, {Like: groups}, {Like: groups[2:], Declared: 7 * Hour}, {Declared: Hour, Limit: 2 * Hour}} {
		a, b := books[0].Estimate(e), books[1].Estimate(e)
		for i := range a.w {
			if math.Float64bits(a.w[i]) != math.Float64bits(b.w[i]) {
				t.Fatalf("bucket %d differs", i)
			}
		}
		if s := a.w.sum(); math.Abs(s-1) > 1e-9 {
			t.Errorf("an estimate sums to %g", s)
		}
	}
}

func TestBasis(t *testing.T) {
	var b Book
	for range prior {
		b.Observe(Evidence{Like: []string{"limited"}, Limit: Hour}, Minute)
	}
	b.Observe(Evidence{Like: []string{"seen"}}, Minute)
	tests := []struct {
		evidence Evidence
		want     Basis
	}{
		{Evidence{}, BasisGuess},
		{Evidence{Like: []string{"new"}}, BasisGuess},
		{Evidence{Like: []string{"new", "seen"}}, BasisHistory},
		{Evidence{Like: []string{"seen"}, Limit: Hour}, BasisLimit},
		{Evidence{Like: []string{"limited"}, Limit: Hour}, BasisHistory},
		{Evidence{Like: []string{"limited"}, Limit: Hour, Declared: Hour}, BasisDeclared},
	}
	for _, tt := range tests {
		if got := b.Basis(tt.evidence); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.evidence, got, tt.want)
		}
	}
}

func BenchmarkMean(b *testing.B) {
	e := (&Book{}).Estimate(Evidence{Declared: 5 * Hour})
	b.ReportAllocs()
	for b.Loop() {
		e.Mean(20 * Minute)
	}
}
