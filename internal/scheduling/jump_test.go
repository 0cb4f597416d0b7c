package scheduling

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
)

// later is a snapshot as it would be if the clock had been set at some moment:
// all that was written down since lies so much later. Until when somebody was
// to wait before the clock was set is not written down anew.
func later(s Snapshot, since Instant, by estimate.Span, before map[string]Instant) Snapshot {
	move := func(t Instant) Instant {
		if t > since {
			return t.add(by)
		}
		return t
	}
	s.Now = move(s.Now)
	s.Requests, s.Placements, s.Pods = slices.Clone(s.Requests), slices.Clone(s.Placements), slices.Clone(s.Pods)
	for i := range s.Requests {
		r := &s.Requests[i]
		if r.Created = move(r.Created); before[r.UID] != r.NotBefore {
			r.NotBefore = r.NotBefore.add(by)
		}
	}
	for i := range s.Placements {
		s.Placements[i].Created, s.Placements[i].Saved = move(s.Placements[i].Created), move(s.Placements[i].Saved)
	}
	for i := range s.Pods {
		s.Pods[i].Since = move(s.Pods[i].Since)
	}
	return s
}

// A clock that is set, forward or back, changes no decision if the core is told
// of it: nothing is overdue, evicted, promised or forgotten because of it.
func TestClockIsSet(t *testing.T) {
	for _, by := range []estimate.Span{0, 12 * estimate.Hour, 400 * 24 * estimate.Hour, -estimate.Hour, -50 * estimate.Hour} {
		for seed := range uint64(40) {
			t.Run(fmt.Sprint("by ", int64(by/estimate.Hour), " h, seed ", seed), func(t *testing.T) {
				v := newRiver(t, seed)
				v.s.Now = Instant(1000 * estimate.Hour)
				steady, set := NewCore(Options{}), NewCore(Options{})
				var since Instant
				before := map[string]Instant{}
				for step := range 25 {
					if step == 12 {
						since = v.s.Now
						v.s.Now += Instant(estimate.Minute)
						for _, r := range v.s.Requests {
							before[r.UID] = r.NotBefore
						}
						set.Shift(by)
					}
					v.flow()
					for i := range v.s.Requests {
						// What is new was made now, and cools off by the clock as it is.
						if r := &v.s.Requests[i]; v.about[r.UID] && steady.entries[r.UID] == nil {
							r.Created = v.s.Now
						}
					}
					shown := v.s
					if since != 0 {
						shown = later(v.s, since, by, before)
					}
					a, b := steady.passAt(v.s), set.passAt(shown)
					if x, y := words(t, a), words(t, b); x != y {
						t.Fatalf("step %d:\nsteady %s\nset    %s", step, x, y)
					}
					v.journal(a)
				}
			})
		}
	}
}

// passAt syncs and decides.
func (c *Core) passAt(s Snapshot) Result {
	c.Sync(s)
	return c.Decide(s.Now)
}

// Whatever the clock does, and nobody says so: no panic, and no eviction is
// said to lose less than nothing, no wait ends before it began.
func TestClockRuns(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			v := newRiver(t, seed)
			rng := rand.New(rand.NewPCG(seed, 9))
			c := NewCore(Options{})
			for range 30 {
				v.flow()
				s := v.s
				s.Now = []Instant{v.s.Now, 1, v.s.Now - Instant(rng.Int64N(int64(v.s.Now))), v.s.Now + Instant(1000*24*estimate.Hour), 0}[rng.IntN(5)]
				if rng.IntN(4) == 0 {
					c.Shift(estimate.Span(rng.Int64N(int64(1000*estimate.Hour))) - 500*estimate.Hour)
				}
				result := c.passAt(s)
				for _, e := range result.Evictions {
					if e.Lost < 0 {
						t.Fatalf("%s loses %d", e.Key, e.Lost)
					}
				}
				for _, w := range c.Reasons(s.Now, "") {
					x, ok := c.Explain(w.UID, s.Now)
					if !ok || w.Reason.Render(clock) == "" {
						t.Fatalf("%s is not explained", w.Key)
					}
					if x.Expected != nil && x.Expected.To < x.Expected.From {
						t.Fatalf("%s starts from %d to %d", w.Key, x.Expected.From, x.Expected.To)
					}
				}
				v.journal(result)
			}
		})
	}
}

// Of the members beyond a minimum the youngest goes, also of those that were
// added on either side of a moment at which the clock was set back.
func TestYoungestGoesThoughTheClockIsSet(t *testing.T) {
	c := NewCore(Options{})
	c.SetNode(testNode("here", "A100", 4))
	s := Snapshot{Nodes: []Node{testNode("here", "A100", 4)}, Now: Instant(100 * estimate.Hour)}
	elastic := gang("elastic").role("w", 3, 1).obj()
	elastic.Roles[0].Min, elastic.Grows = 1, true
	s.Requests = []Request{elastic}
	place := func(name string, index int32, at Instant, extends bool) {
		s.Placements = append(s.Placements, Placement{
			Gang: elastic.Key, UID: elastic.UID, Attempt: 1, Created: at, Extends: extends, Journal: name,
			Members: []PlacedMember{{Assignment: Assignment{Role: "w", Index: index, Node: "here", GPUs: []string{fmt.Sprintf("here-%d", index)}}, Resources: elastic.Roles[0].Resources}},
		})
	}
	place("", 0, s.Now, false)
	place("old", 1, s.Now, true)
	c.Sync(s)
	c.Shift(-50 * estimate.Hour)
	s.Now += Instant(-49 * estimate.Hour)
	place("young", 2, s.Now, true)
	other := gang("other").role("w", 1, 2).obj()
	other.Created = s.Now
	s.Requests = append(s.Requests, other)
	c.Sync(s)
	back := c.Decide(s.Now).GiveBacks
	if len(back) != 1 || back[0].Journal != "young" {
		t.Errorf("given back: %+v, want the young one", back)
	}
}
