package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// fleet is 5,000 nodes with 8 GPUs, so many percent of them held by a mix of
// shares and whole GPUs scattered at random, so that few nodes are alike, and
// the classes of that mix.
func fleet(b *testing.B, full int) (*Cluster, []Class) {
	b.Helper()
	c := New(Options{})
	const nodes = 5000
	for i := range nodes {
		s := NodeSpec{Name: fmt.Sprintf("n%05d", i), MilliCPU: 96000, MemoryBytes: 768 << 30, Pods: 110, Domains: []string{fmt.Sprintf("r%03d", i/50)}}
		for g := range 8 {
			s.Devices = append(s.Devices, DeviceSpec{UUID: fmt.Sprint(g), Model: []string{"A", "B"}[i%2], MemoryMiB: 81920, Link: "l"})
		}
		if _, err := c.SetNode(s); err != nil {
			b.Fatal(err)
		}
	}
	var classes, scattered []Class
	for _, w := range DefaultWorkload() {
		w.Ask.Pods = 1
		k, err := c.Class(w.Ask)
		if err != nil {
			b.Fatal(err)
		}
		w.Ask.Policy = Random
		at, err := c.Class(w.Ask)
		if err != nil {
			b.Fatal(err)
		}
		for range w.Share {
			classes, scattered = append(classes, k), append(scattered, at)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	c.Weigh()
	for c.Totals().FreeMilli*100 > int64(100-full)*nodes*8*Whole {
		// Those that fit nowhere any more are skipped: shares always do.
		c.Place(scattered[r.IntN(len(scattered))], Scope{})
	}
	for _, k := range scattered {
		c.Forget(k)
	}
	c.Weigh()
	for _, k := range classes {
		c.Room(k, Scope{}, 1)
	}
	return c, classes
}

// percentiles reports the median and the 99th of single measurements.
func percentiles(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, "p99-µs")
}

// BenchmarkPlace is one scored placement at a time: members of all classes
// come in turn, and the oldest leave, so that every placement finds nodes
// changed.
func BenchmarkPlace(b *testing.B) {
	for _, full := range []int{0, 50, 95} {
		b.Run(fmt.Sprintf("full=%d", full), func(b *testing.B) {
			c, classes := fleet(b, full)
			r := rand.New(rand.NewPCG(3, 4))
			var ring [64]Seat
			var held [64]bool
			took := make([]time.Duration, 0, 1<<20)
			one := func(i int) {
				if at := i % len(ring); held[at] {
					c.Release(ring[at])
					held[at] = false
				}
				k := classes[r.IntN(len(classes))]
				start := time.Now()
				s, ok := c.Place(k, Scope{})
				if len(took) < cap(took) {
					took = append(took, time.Since(start))
				}
				ring[i%len(ring)], held[i%len(ring)] = s, ok
			}
			for i := range 30000 {
				one(i)
			}
			took = took[:0]
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; b.Loop(); i++ {
				one(i)
			}
			percentiles(b, took)
		})
	}
}

// BenchmarkGang plans 1,000 members of 4 GPUs and rolls them back, with the
// class's scores up to date (warm) and with none (cold).
func BenchmarkGang(b *testing.B) {
	for _, full := range []int{0, 50} {
		for _, cold := range []bool{false, true} {
			b.Run(fmt.Sprintf("full=%d/cold=%t", full, cold), func(b *testing.B) {
				c, _ := fleet(b, full)
				k, err := c.Class(Ask{MilliCPU: 32000, MemoryBytes: 64 << 30, Pods: 1, GPUs: 4})
				if err != nil {
					b.Fatal(err)
				}
				seats := make([]Seat, 0, 1000)
				c.PlaceMany(k, 0, Scope{}, nil)
				var took []time.Duration
				b.ReportAllocs()
				for b.Loop() {
					if cold {
						c.Forget(k)
					}
					start := time.Now()
					m := c.Mark()
					seats = c.PlaceMany(k, 1000, Scope{}, seats[:0])
					if len(seats) != 1000 {
						b.Fatalf("%d of 1000 were placed", len(seats))
					}
					c.Undo(m)
					took = append(took, time.Since(start))
				}
				percentiles(b, took)
			})
		}
	}
}

// BenchmarkCannotFit is the verdict on gangs that do not fit.
func BenchmarkCannotFit(b *testing.B) {
	for _, full := range []int{0, 50, 95} {
		b.Run(fmt.Sprintf("full=%d", full), func(b *testing.B) {
			c, _ := fleet(b, full)
			var asks []Class
			for _, a := range []Ask{{MilliCPU: 1000, GPUs: 4}, {MilliCPU: 1000, ShareMilli: 333}, {MilliCPU: 1000, GPUs: 8, Models: []string{"B"}}} {
				k, err := c.Class(a)
				if err != nil {
					b.Fatal(err)
				}
				asks = append(asks, k)
			}
			// One more than there is room for, and nothing remembered but for
			// one of the classes.
			var n []int
			for i, k := range asks {
				n = append(n, c.Room(k, Scope{}, 1<<30)+1)
				if i > 0 {
					c.Forget(k)
				}
			}
			said := 0
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if c.CannotFit(asks[i%len(asks)], n[i%len(asks)], Scope{}) {
					said++
				}
			}
			b.ReportMetric(float64(said)/float64(b.N), "found/op")
		})
	}
}

// BenchmarkSetNode is one changed description.
func BenchmarkSetNode(b *testing.B) {
	c, _ := fleet(b, 50)
	s := c.Spec(17)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.MilliCPU = int64(96000 - i%2)
		if _, err := c.SetNode(s); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWeigh is weighing scarcity and working out every score of one class
// anew.
func BenchmarkWeigh(b *testing.B) {
	c, classes := fleet(b, 50)
	b.ReportAllocs()
	for b.Loop() {
		c.Weigh()
		c.Room(classes[0], Scope{}, 1)
	}
}
