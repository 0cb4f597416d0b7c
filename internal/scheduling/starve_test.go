package scheduling

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// stream is an endless stream of small work, more than there is room for, in
// which one gang waits.
type stream struct {
	name   string
	queues []queue.Spec
	// pods is how many a quota of the namespace allows; 0: there is none.
	pods int64
	// gang is what waits; small is what arrives all the time, and longest how
	// long the longest of it runs.
	gang    Request
	small   func(i int, rng *rand.Rand) (Request, estimate.Span)
	longest estimate.Span
	// backlog is for how long the cluster works on what is older.
	backlog estimate.Span
	// often is how often small work arrives.
	often estimate.Span
}

// startsAfter is how long the gang waits among so many arrivals.
func (s *stream) startsAfter(t *testing.T, seed uint64, arrivals int) estimate.Span {
	rng := rand.New(rand.NewPCG(seed, 3))
	c := NewCore(Options{Patience: estimate.Hour, Gain: -1})
	for i := range 3 {
		c.SetNode(testNode(fmt.Sprintf("n%d", i), "A100", 8))
	}
	c.SetQueues(s.queues)
	ends := map[string]Instant{}
	runs := map[string]Request{}
	length := map[string]estimate.Span{}
	now := Instant(1)
	next := 0
	arrive := func() {
		r, run := s.small(next, rng)
		next++
		r.UID, r.Name, r.Created = fmt.Sprintf("s%06d", next), fmt.Sprintf("s%06d", next), now
		runs[r.UID], length[r.UID] = r, run
		c.SetRequest(r)
	}
	for range 26 {
		arrive()
	}
	for _, p := range c.Decide(now).Plans {
		ends[p.UID] = now.add(length[p.UID])
	}
	g := s.gang
	g.Created = now
	c.SetRequest(g)
	for next < arrivals && now.since(g.Created) < 200*estimate.Hour {
		// 1. The next end or the next arrival, whatever is first.
		at := now.add(s.often)
		for _, end := range ends {
			at = min(at, end)
		}
		now = max(at, now+1)
		for _, uid := range sortedKeys(ends) {
			if ends[uid] <= now {
				c.Drop(uid)
				c.Observe(runs[uid].Evidence, length[uid])
				delete(ends, uid)
			}
		}
		// 2. There is always something that waits.
		for len(c.waiting) < 30 {
			arrive()
		}
		if s.pods > 0 {
			c.SetQuotas([]Quota{quotaOf("pods", QuotaTerm{Resource: "pods", Hard: s.pods, Used: heldMembers(c)})})
		}
		for _, p := range c.Decide(now).Plans {
			if p.UID == g.UID {
				return now.since(g.Created)
			}
			ends[p.UID] = now.add(length[p.UID])
		}
	}
	t.Fatalf("seed %d: it did not start in %d h among %d arrivals", seed, now.since(g.Created)/estimate.Hour, next)
	return 0
}

// heldMembers is how many members run, as the API server counts their pods.
func heldMembers(c *Core) int64 {
	n := int64(0)
	for _, e := range c.running {
		n += int64(len(e.held))
	}
	return n
}

// A gang of the whole cluster starts within a bound that does not depend on
// how much arrives: once its patience is over, what is promised to it is
// broken at most a few times, each time for as long as the longest work runs.
func TestNothingStarves(t *testing.T) {
	whole := gang("whole").role("worker", 3, 8).obj()
	honest := func(gpus int32, longest estimate.Span) func(int, *rand.Rand) (Request, estimate.Span) {
		return func(_ int, rng *rand.Rand) (Request, estimate.Span) {
			run := estimate.Minute + estimate.Span(rng.Int64N(int64(longest-estimate.Minute)))
			return gang("").role("worker", 1, gpus).with(func(r *Request) { r.Evidence.Declared = run }).obj(), run
		}
	}
	liar := func(_ int, rng *rand.Rand) (Request, estimate.Span) {
		r, run := honest(1, 4*estimate.Hour)(0, rng)
		r.Evidence.Declared = estimate.Minute
		return r, run
	}
	limit := []queue.Spec{{Name: "vision", Limit: queue.Amounts{"gpu": 8000}}, {Name: "nlp"}}
	inQueue := func(name string, of func(int, *rand.Rand) (Request, estimate.Span)) func(int, *rand.Rand) (Request, estimate.Span) {
		return func(i int, rng *rand.Rand) (Request, estimate.Span) {
			r, run := of(i, rng)
			r.Queue = name
			return r, run
		}
	}
	many := func(i int, rng *rand.Rand) (Request, estimate.Span) {
		r, run := honest(1, 2*estimate.Hour)(i, rng)
		r.User = fmt.Sprintf("user-%d", i%7)
		return r, run
	}
	long := gang("long").role("worker", 1, 4).with(func(r *Request) { r.Evidence.Declared = 100 * estimate.Hour }).obj()
	atLimit := gang("limit").role("worker", 1, 8).with(func(r *Request) { r.Queue = "vision" }).obj()
	wholeInQueue := whole
	wholeInQueue.Queue = "nlp"
	streams := []stream{
		{name: "small and honest", gang: whole, small: honest(1, 2*estimate.Hour), longest: 2 * estimate.Hour},
		{name: "whole nodes", gang: whole, small: honest(8, 2*estimate.Hour), longest: 2 * estimate.Hour, backlog: 26 / 3 * 2 * estimate.Hour},
		{name: "liars", gang: whole, small: liar, longest: 4 * estimate.Hour},
		{name: "many users", gang: whole, small: many, longest: 2 * estimate.Hour},
		{name: "long among short", gang: long, small: honest(1, 30*estimate.Minute), longest: 30 * estimate.Minute},
		{name: "long among whole nodes", gang: long, small: honest(8, 2*estimate.Hour), longest: 2 * estimate.Hour},
		{name: "as much as its queue may have", queues: limit, gang: atLimit, small: inQueue("vision", honest(1, 2*estimate.Hour)), longest: 2 * estimate.Hour},
		{name: "the whole cluster, in a queue", queues: limit, gang: wholeInQueue, small: inQueue("nlp", honest(1, 2*estimate.Hour)), longest: 2 * estimate.Hour},
		{name: "the whole cluster, among other queues", queues: limit, gang: wholeInQueue, small: inQueue("default", honest(1, 2*estimate.Hour)), longest: 2 * estimate.Hour},
		{name: "most of a quota", pods: 12, gang: gang("ten").role("worker", 10, 1).obj(), small: honest(1, 2*estimate.Hour), longest: 2 * estimate.Hour},
		{name: "beside one that never fits", gang: whole, small: func(i int, rng *rand.Rand) (Request, estimate.Span) {
			if i == 0 {
				return gang("").role("worker", 9, 8).obj(), estimate.Hour
			}
			return honest(1, 2*estimate.Hour)(i, rng)
		}, longest: 2 * estimate.Hour},
	}
	for _, s := range streams {
		t.Run(s.name, func(t *testing.T) {
			s.often = 10 * estimate.Minute
			for seed := range uint64(3) {
				// Patience, of the long work 33 times as much, and then so often
				// the longest run time.
				bound := s.backlog + estimate.Hour + (patient+2)*s.longest
				if s.gang.Name == "long" {
					bound = 35*estimate.Hour + (patient+2)*s.longest
				}
				if got := s.startsAfter(t, seed, 8000); got > bound {
					t.Errorf("seed %d: it waited for %.1f h, the bound is %.1f h", seed, float64(got)/float64(estimate.Hour), float64(bound)/float64(estimate.Hour))
				} else {
					t.Logf("%.1f h", float64(got)/float64(estimate.Hour))
				}
			}
		})
	}
}
