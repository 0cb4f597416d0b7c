package scheduling

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/placement"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// elastic makes the last role of a gang elastic.
func (b *requestBuilder) elastic(least int32) *requestBuilder {
	b.r.Roles[len(b.r.Roles)-1].Min = least
	return b
}

// journalled is a cluster that does what it is told: what is planned is
// journalled and grows, what is given back is gone a step later.
type journalled struct {
	t    *testing.T
	core *Core
	snap Snapshot
	next int
	// pods is how many pods a quota allows; 0: there is none.
	pods int64
	// told is what was decided last.
	told Result
}

func newJournalled(t *testing.T, nodes ...Node) *journalled {
	return &journalled{t: t, core: NewCore(Options{}), snap: Snapshot{Now: 1, Nodes: nodes}}
}

// ask adds a request.
func (j *journalled) ask(r Request) {
	r.Created = j.snap.Now
	j.snap.Requests = append(j.snap.Requests, r)
}

// pass decides, and writes what came of it.
func (j *journalled) pass() Result {
	j.t.Helper()
	if j.pods > 0 {
		used := int64(len(NewLedger(j.snap).Holdings()))
		j.snap.Quotas = []Quota{quotaOf("small", QuotaTerm{Resource: "pods", Hard: j.pods, Used: used})}
	}
	// The core compares with what it was shown: show it other memory.
	j.snap.Requests = slices.Clone(j.snap.Requests)
	j.told = j.core.Pass(j.snap)
	j.snap.Requests = slices.Clone(j.snap.Requests)
	for _, plan := range j.told.Plans {
		j.snap.Placements = append(j.snap.Placements, journal(j.snap, plan))
		r := j.request(plan.UID)
		r.Grows, r.Attempt = slices.ContainsFunc(r.Roles, func(r Role) bool { return r.elastic() }), plan.Attempt
	}
	for _, g := range j.told.Growths {
		p := journal(j.snap, Plan{Key: g.Key, UID: g.UID, Attempt: g.Attempt, Members: []Assignment{g.Member}})
		j.next++
		p.Extends, p.Journal = true, fmt.Sprintf("journal-%03d", j.next)
		j.snap.Placements = append(j.snap.Placements, p)
	}
	for _, b := range j.told.GiveBacks {
		at := slices.IndexFunc(j.snap.Placements, func(p Placement) bool { return p.Journal == b.Journal && p.Journal != "" })
		if at < 0 {
			j.t.Fatalf("given back what is not in the journal: %+v", b)
		}
		j.snap.Placements[at].Leaving = true
	}
	j.snap.Now += Instant(estimate.Second)
	return j.told
}

func (j *journalled) request(uid string) *Request {
	j.t.Helper()
	at := slices.IndexFunc(j.snap.Requests, func(r Request) bool { return r.UID == uid })
	if at < 0 {
		j.t.Fatalf("nobody is called %s", uid)
	}
	return &j.snap.Requests[at]
}

// go away: what was ordered back has ended.
func (j *journalled) leave() {
	j.snap.Placements = slices.DeleteFunc(j.snap.Placements, func(p Placement) bool { return p.Leaving })
}

// end ends a request and all that it holds.
func (j *journalled) end(name string) {
	j.snap.Requests = slices.DeleteFunc(j.snap.Requests, func(r Request) bool { return r.Name == name })
	j.snap.Placements = slices.DeleteFunc(j.snap.Placements, func(p Placement) bool { return p.Gang.Name == name })
}

// done ends one member for good.
func (j *journalled) done(name string, index int32) {
	r := j.request("uid-" + name)
	role := &r.Roles[len(r.Roles)-1]
	role.Done = append(slices.Clone(role.Done), index)
	j.release(r.UID, role.Name, index)
}

func (j *journalled) release(uid, role string, index int32) {
	for i := range j.snap.Placements {
		p := &j.snap.Placements[i]
		for m := range p.Members {
			if p.UID == uid && p.Members[m].Role == role && p.Members[m].Index == index {
				p.Members = slices.Clone(p.Members)
				p.Members[m].Released = true
			}
		}
	}
}

// rest makes passes until nothing is decided any more.
func (j *journalled) rest() {
	j.t.Helper()
	for range 60 {
		r := j.pass()
		leaving := slices.ContainsFunc(j.snap.Placements, func(p Placement) bool { return p.Leaving })
		if len(r.Plans)+len(r.Growths)+len(r.GiveBacks)+len(r.Evictions) == 0 && !leaving {
			return
		}
		j.leave()
	}
	j.t.Fatalf("decisions do not come to rest: %+v", j.told)
}

// has counts the members of a gang that hold something and stay.
func (j *journalled) has(name string) int {
	n := 0
	for _, p := range j.snap.Placements {
		if p.Gang.Name != name || p.Leaving {
			continue
		}
		for _, m := range p.Members {
			if !m.Released {
				n++
			}
		}
	}
	return n
}

func (j *journalled) want(what string, counts map[string]int) {
	j.t.Helper()
	got := map[string]int{}
	for name := range counts {
		got[name] = j.has(name)
	}
	if diff := cmp.Diff(counts, got); diff != "" {
		j.t.Fatalf("%s: members (-want +got):\n%s", what, diff)
	}
}

func TestElasticGangsGrowIntoWhatIsIdle(t *testing.T) {
	j := newJournalled(t, testNode("a", "A100", 4))
	j.ask(gang("sweep").role("worker", 8, 1).elastic(1).obj())
	if r := j.pass(); len(r.Plans) != 1 || len(r.Plans[0].Members) != 1 || r.Plans[0].Members[0].Index != 0 {
		t.Fatalf("the start is %+v, want the minimum alone", r.Plans)
	}
	r := j.pass()
	var indices []int32
	for _, g := range r.Growths {
		indices = append(indices, g.Member.Index)
		if g.Attempt != 1 || len(g.Member.GPUs) != 1 || g.Member.Port == 0 {
			t.Errorf("growth %+v", g)
		}
	}
	if diff := cmp.Diff([]int32{1, 2, 3}, indices); diff != "" {
		t.Errorf("grown by (-want +got):\n%s", diff)
	}
	j.rest()
	j.want("at rest", map[string]int{"sweep": 4})
	x, _ := j.core.Explain("uid-sweep", j.snap.Now)
	if x.Size == nil || x.Size.Has != 4 || x.Size.Least != 1 || x.Size.Most != 8 || x.Size.Why == nil {
		t.Errorf("explained as %+v", x.Size)
	} else if words := x.Size.Render(clock); !strings.HasPrefix(words, "4 of 1..8; for another one: ") {
		t.Errorf("in words: %s", words)
	}
	// One that is done makes room for the next index.
	j.done("sweep", 1)
	if r := j.pass(); len(r.Growths) != 1 || r.Growths[0].Member.Index != 4 {
		t.Errorf("after one was done: %+v", r.Growths)
	}
}

func TestElasticGangsStartWithTheirMinimumOrNotAtAll(t *testing.T) {
	j := newJournalled(t, testNode("a", "A100", 2))
	j.ask(gang("sweep").role("worker", 8, 1).elastic(3).obj())
	j.rest()
	j.want("too small", map[string]int{"sweep": 0})
	j.snap.Nodes[0] = testNode("a", "A100", 4)
	j.rest()
	j.want("large enough", map[string]int{"sweep": 4})
}

func TestExactlyAsManyAreGivenBackAsAreNeeded(t *testing.T) {
	tests := []struct {
		name  string
		last  Request
		queue string
		want  int
	}{
		{"one GPU", gang("new").role("worker", 1, 1).obj(), "", 1},
		{"two GPUs", gang("new").role("worker", 2, 1).obj(), "", 2},
		{"an elastic gang, its minimum", gang("new").role("worker", 8, 1).elastic(2).obj(), "", 2},
		{"all but the minimum", gang("new").role("worker", 1, 3).obj(), "", 3},
		{"more than all that is beyond the minimum", gang("new").role("worker", 1, 4).obj(), "", 0},
		{"no GPU", gang("new").role("worker", 1, 0).obj(), "", 0},
		{"a model that is not there", gang("new").role("worker", 1, 1, "H100").obj(), "", 0},
		{"a queue that does not exist", gang("new").role("worker", 1, 1).with(func(r *Request) { r.Queue = "nobody" }).obj(), "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := newJournalled(t, testNode("a", "A100", 4))
			if tt.last.Queue != "" {
				j.snap.Queues = []queue.Spec{{Name: "default", Weight: 1}}
			}
			j.ask(gang("sweep").role("worker", 8, 1).elastic(1).obj())
			j.rest()
			j.want("alone", map[string]int{"sweep": 4})
			j.ask(tt.last)
			r := j.pass()
			if len(r.GiveBacks) != tt.want || len(r.Evictions) > 0 {
				t.Fatalf("%d replicas are given back, want %d: %+v, evictions %v", len(r.GiveBacks), tt.want, r.GiveBacks, r.Evictions)
			}
			for i, b := range r.GiveBacks {
				// The youngest go, of the same age those of the highest index.
				if b.Journal == "" || b.For.Name != "new" || b.Name != "sweep" || b.Index < int32(4-tt.want) {
					t.Errorf("%d: %+v", i, b)
				}
			}
			// Nothing more is asked for while they are on their way.
			if r := j.pass(); len(r.GiveBacks)+len(r.Growths) > 0 {
				t.Errorf("while they leave: %+v", r)
			}
			if tt.want == 0 {
				j.rest()
				j.want("in vain", map[string]int{"sweep": 4})
				return
			}
			j.leave()
			if r := j.pass(); len(r.Plans) != 1 || len(r.Growths) > 0 {
				t.Fatalf("once they are gone: %+v", r)
			}
			j.rest()
			j.want("side by side", map[string]int{"sweep": 4 - tt.want})
			j.end("new")
			j.rest()
			j.want("alone again", map[string]int{"sweep": 4})
		})
	}
}

// A scheduler that does not know yet what all that waits asks for adds nothing, and decides again
// when that is over.
func TestNothingGrowsBeforeItsTime(t *testing.T) {
	j := newJournalled(t, testNode("a", "A100", 4))
	j.ask(gang("sweep").role("worker", 8, 1).elastic(1).obj())
	j.pass()
	j.core.Sync(j.snap)
	from := j.snap.Now.add(3 * estimate.Second)
	for _, c := range []struct {
		at    Instant
		added int
	}{{j.snap.Now, 0}, {from - 1, 0}, {from, 3}} {
		j.core.Apply(Update{GrowFrom: from})
		if r := j.core.Decide(c.at); len(r.Growths) != c.added {
			t.Errorf("at %d of %d: %+v, want %d more", c.at, from, r.Growths, c.added)
		}
		if next := j.core.Wake(c.at); c.at < from && next != from {
			t.Errorf("at %d the next decision is due at %d, want %d", c.at, next, from)
		}
	}
}

// Room of which a part is free already is kept for whom it is made.
func TestNothingGrowsIntoRoomThatIsBeingMade(t *testing.T) {
	j := newJournalled(t, testNode("a", "A100", 4))
	j.ask(gang("sweep").role("worker", 8, 1).elastic(1).obj())
	j.rest()
	j.ask(gang("new").role("worker", 2, 1).obj())
	if r := j.pass(); len(r.GiveBacks) != 2 {
		t.Fatalf("%+v", r)
	}
	first := slices.IndexFunc(j.snap.Placements, func(p Placement) bool { return p.Leaving })
	j.snap.Placements = slices.Delete(j.snap.Placements, first, first+1)
	if r := j.pass(); len(r.Growths)+len(r.GiveBacks)+len(r.Plans) > 0 {
		t.Errorf("while one of two has gone: %+v", r)
	}
	j.leave()
	j.rest()
	j.want("side by side", map[string]int{"sweep": 2, "new": 2})
}

// A Muster that is started again while replicas leave neither orders more nor
// loses whom they leave for.
func TestGiveBacksAreNotOrderedAgainByANewCore(t *testing.T) {
	j := newJournalled(t, testNode("a", "A100", 4))
	j.ask(gang("sweep").role("worker", 8, 1).elastic(1).obj())
	j.rest()
	j.ask(gang("new").role("worker", 2, 1).obj())
	if r := j.pass(); len(r.GiveBacks) != 2 {
		t.Fatalf("%+v", r)
	}
	j.core = NewCore(Options{})
	if r := j.pass(); len(r.GiveBacks)+len(r.Growths)+len(r.Plans) != 0 {
		t.Errorf("by the new core: %+v", r)
	}
	j.leave()
	j.rest()
	j.want("side by side", map[string]int{"sweep": 2, "new": 2})
}

// What the journal does not count any more is gone, though its pod is still shown:
// nobody else goes for it, whoever decides.
func TestPodsThatAreLeftAreOnTheirWay(t *testing.T) {
	for _, asked := range []int32{1, 2} {
		t.Run(fmt.Sprintf("%d asked for", asked), func(t *testing.T) {
			j := newJournalled(t, testNode("a", "A100", 4))
			j.ask(gang("sweep").role("worker", 8, 1).elastic(1).obj())
			j.rest()
			j.ask(gang("new").role("worker", asked, 1).obj())
			if r := j.pass(); len(r.GiveBacks) != int(asked) {
				t.Fatalf("%+v", r)
			}
			first := slices.IndexFunc(j.snap.Placements, func(p Placement) bool { return p.Leaving })
			p, m := j.snap.Placements[first], j.snap.Placements[first].Members[0]
			j.snap.Placements = slices.Delete(j.snap.Placements, first, first+1)
			j.snap.Pods = []Pod{{Key: Key{Name: "left"}, UID: "left", Gang: p.UID, Role: m.Role, Index: m.Index, Node: m.Node, GPUs: m.GPUs}}
			j.core = NewCore(Options{})
			if r := j.pass(); len(r.GiveBacks)+len(r.Growths)+len(r.Plans) > 0 {
				t.Errorf("while its pod is shown: %+v", r)
			}
			j.snap.Pods = nil
			j.leave()
			if r := j.pass(); len(r.Plans) != 1 || len(r.GiveBacks) > 0 {
				t.Errorf("once it is not: %+v", r)
			}
			j.rest()
			j.want("side by side", map[string]int{"sweep": 4 - int(asked), "new": int(asked)})
		})
	}
}

// Beside victims of an eviction go as many replicas as are still missing.
func TestReplicasGoBesideVictims(t *testing.T) {
	j := newJournalled(t, testNode("a", "A100", 4))
	j.ask(gang("low").role("worker", 1, 1).obj())
	j.pass()
	j.ask(gang("sweep").role("worker", 8, 1).elastic(1).with(func(r *Request) { r.Priority = 1 }).obj())
	j.rest()
	j.want("before", map[string]int{"low": 1, "sweep": 3})
	j.snap.Now += Instant(estimate.Hour)
	j.ask(gang("high").role("worker", 1, 3).with(func(r *Request) { r.Priority = 1 }).obj())
	r := j.pass()
	if len(r.GiveBacks) != 2 || len(r.Evictions) != 1 || r.Evictions[0].Name != "low" {
		t.Errorf("given back %+v, evicted %+v", r.GiveBacks, r.Evictions)
	}
}

// A gang of which members are done is entitled to its minimum of the others:
// it gets it from what is beyond the minimum of another, and by itself.
func TestWhatFallsBelowItsMinimumIsEntitled(t *testing.T) {
	j := newJournalled(t, testNode("a", "A100", 4))
	j.ask(gang("one").role("worker", 8, 1).elastic(2).obj())
	j.rest()
	j.ask(gang("two").role("worker", 8, 1).elastic(2).obj())
	j.rest()
	j.want("two minima", map[string]int{"one": 2, "two": 2})
	// Both of the first are done at the same moment: the room goes to one of
	// the two, as its minimum, and stays there.
	j.done("one", 0)
	j.done("one", 1)
	j.rest()
	j.want("the minimum of the first again", map[string]int{"one": 2, "two": 2})
	// With few left to do the minimum is what is left.
	for i := int32(2); i < 7; i++ {
		j.done("one", i)
		j.rest()
	}
	j.want("one left", map[string]int{"one": 1, "two": 3})
}

// A wish waits in line: it does not take what an older request waits for, and
// what is beyond a minimum goes to it.
func TestAWishWaitsInLine(t *testing.T) {
	j := newJournalled(t, testNode("a", "A100", 2))
	j.ask(gang("one").role("worker", 4, 1).elastic(1).obj())
	j.rest()
	j.want("alone", map[string]int{"one": 2})
	j.ask(gang("two").role("worker", 1, 1).obj())
	j.rest()
	j.want("side by side", map[string]int{"one": 1, "two": 1})
	j.ask(gang("three").role("worker", 1, 1).obj())
	j.rest()
	j.want("full", map[string]int{"one": 1, "two": 1, "three": 0})
	j.snap.Now += Instant(estimate.Minute)
	j.done("one", 0)
	j.rest()
	j.want("the older first", map[string]int{"one": 0, "two": 1, "three": 1})
	for _, w := range j.told.Waiting {
		t.Errorf("somebody waits who is placed: %+v", w)
	}
	j.end("two")
	j.rest()
	j.want("then the wish", map[string]int{"one": 1, "three": 1})
}

// What grows stays within the limit of its queue, and gives back what another
// of the queue needs of it.
func TestGrowthKeepsToTheLimitOfItsQueue(t *testing.T) {
	j := newJournalled(t, testNode("a", "A100", 8))
	j.snap.Queues = []queue.Spec{{Name: "vision", Weight: 1, Limit: queue.Amounts{"gpu": 3 * placement.Whole}}}
	in := func(b *requestBuilder) Request { return b.with(func(r *Request) { r.Queue = "vision" }).obj() }
	j.ask(in(gang("sweep").role("worker", 8, 1).elastic(1)))
	j.rest()
	j.want("at the limit", map[string]int{"sweep": 3})
	j.ask(in(gang("new").role("worker", 2, 1)))
	if r := j.pass(); len(r.GiveBacks) != 2 {
		t.Fatalf("for the limit: %+v", r)
	}
	j.rest()
	j.want("the limit is shared", map[string]int{"sweep": 1, "new": 2})
}

// The same holds of a quota of its namespace.
func TestGrowthKeepsToQuotas(t *testing.T) {
	j := newJournalled(t, testNode("a", "A100", 8))
	j.pods = 3
	j.ask(gang("sweep").role("worker", 8, 1).elastic(1).obj())
	j.rest()
	j.want("as many as the quota allows", map[string]int{"sweep": 3})
	j.ask(gang("more").role("worker", 3, 1).obj())
	j.rest()
	j.want("nothing is given back in vain", map[string]int{"sweep": 3, "more": 0})
	// The API server refuses while the quota is full.
	j.ask(gang("new").role("worker", 2, 1).with(func(r *Request) { r.Refused = "exceeded quota" }).obj())
	if r := j.pass(); len(r.GiveBacks) != 2 {
		t.Fatalf("for the quota: %+v", r)
	}
	j.leave()
	j.request("uid-new").Refused = ""
	j.rest()
	j.want("the quota is shared", map[string]int{"sweep": 1, "new": 2})
}

// What is idle is shared out fairly: to the queue with the smaller share, and
// to the gang with the fewest members.
func TestGrowthIsFair(t *testing.T) {
	j := newJournalled(t, testNode("a", "A100", 8))
	for _, name := range []string{"one", "two", "three"} {
		j.ask(gang(name).role("worker", 8, 1).elastic(1).obj())
	}
	j.rest()
	counts := []int{j.has("one"), j.has("two"), j.has("three")}
	slices.Sort(counts)
	if diff := cmp.Diff([]int{2, 3, 3}, counts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	j = newJournalled(t, testNode("a", "A100", 8))
	j.snap.Queues = []queue.Spec{{Name: "vision", Weight: 3}, {Name: "nlp", Weight: 1}}
	j.ask(gang("one").role("worker", 8, 1).elastic(1).with(func(r *Request) { r.Queue = "vision" }).obj())
	j.ask(gang("two").role("worker", 8, 1).elastic(1).with(func(r *Request) { r.Queue = "nlp" }).obj())
	j.rest()
	j.want("by weight", map[string]int{"one": 6, "two": 2})
}

// Replicas use nodes that are kept free for another, and do not delay it: it
// starts when all else has gone as if they were not there.
func TestReplicasDoNotDelayWhatIsPromised(t *testing.T) {
	j := newJournalled(t, testNode("a", "A100", 4), testNode("b", "A100", 4))
	j.ask(gang("long").role("worker", 1, 4).obj())
	j.pass()
	j.ask(gang("whole").role("worker", 2, 4).obj())
	j.snap.Now += Instant(7 * estimate.Hour)
	j.pass()
	if len(j.core.promises) != 1 {
		t.Fatalf("%d promises", len(j.core.promises))
	}
	j.ask(gang("sweep").role("worker", 8, 1).elastic(1).with(func(r *Request) { r.Evidence.Declared = estimate.Minute }).obj())
	j.rest()
	j.want("on nodes that are kept free", map[string]int{"sweep": 4, "whole": 0})
	if len(j.core.promises) != 1 {
		t.Fatalf("%d promises", len(j.core.promises))
	}
	j.end("long")
	j.rest()
	// The minimum is not given back: it was in time. The rest is, once it helps.
	j.want("the promised waits for the minimum alone", map[string]int{"whole": 0})
	j.end("sweep")
	j.rest()
	j.want("it starts", map[string]int{"whole": 2})
}

// elasticSim is a random life of elastic and rigid gangs.
type elasticSim struct {
	*journalled
	rng *rand.Rand
}

func newElasticSim(t *testing.T, seed uint64) *elasticSim {
	s := &elasticSim{rng: rand.New(rand.NewPCG(seed, 11))}
	var nodes []Node
	for i := range 1 + s.rng.IntN(3) {
		nodes = append(nodes, testNode(fmt.Sprintf("n%d", i), []string{"A100", "H100"}[s.rng.IntN(2)], 1+s.rng.IntN(8)))
	}
	s.journalled = newJournalled(t, nodes...)
	if s.rng.IntN(2) == 0 {
		s.snap.Queues = []queue.Spec{
			{Name: "vision", Weight: 1, Guaranteed: queue.Amounts{"gpu": placement.Whole}},
			{Name: "nlp", Weight: 2, Limit: queue.Amounts{"gpu": 4 * placement.Whole}},
		}
	}
	return s
}

func (s *elasticSim) arrive() {
	s.next++
	b := gang(fmt.Sprintf("g%03d", s.next))
	b.r.Priority = int32(s.rng.IntN(2))
	for i := range 1 + s.rng.IntN(2) {
		n := int32(1 + s.rng.IntN(6))
		b.role(fmt.Sprintf("r%d", i), n, int32(s.rng.IntN(3)), [][]string{nil, {"A100"}, {"H100", "A100"}}[s.rng.IntN(3)]...)
		if s.rng.IntN(2) == 0 {
			b.elastic(1 + s.rng.Int32N(n))
		}
	}
	if s.snap.Queues != nil {
		b.r.Queue = []string{"vision", "nlp"}[s.rng.IntN(2)]
	}
	s.ask(b.obj())
}

// live changes something at random: members are done, gangs end, what leaves is
// gone or not yet.
func (s *elasticSim) live() {
	for _, r := range slices.Clone(s.snap.Requests) {
		switch s.rng.IntN(8) {
		case 0:
			s.end(r.Name)
		case 1:
			i := s.rng.IntN(len(r.Roles))
			index := s.rng.Int32N(r.Roles[i].Replicas)
			if placed := slices.ContainsFunc(s.snap.Placements, func(p Placement) bool { return p.UID == r.UID }); placed && !r.Roles[i].done(index) {
				roles := slices.Clone(r.Roles)
				roles[i].Done = append(slices.Clone(roles[i].Done), index)
				s.request(r.UID).Roles = roles
				s.release(r.UID, roles[i].Name, index)
			}
		}
	}
	if s.rng.IntN(2) == 0 {
		s.leave()
	}
}

// check asserts what always holds: nobody starts with a part of its minimum,
// nothing is held twice, no member has two places, and nothing is beyond the
// limit of its queue.
func (s *elasticSim) check() {
	s.t.Helper()
	for _, plan := range s.told.Plans {
		r := s.request(plan.UID)
		counts := map[string]int64{}
		for _, m := range plan.Members {
			counts[m.Role]++
		}
		for i := range r.Roles {
			want := members(&r.Roles[i])
			if !r.Roles[i].elastic() {
				want = int64(r.Roles[i].Replicas)
			}
			if counts[r.Roles[i].Name] != want {
				s.t.Fatalf("%s starts with %d of %s, want %d", r.Name, counts[r.Roles[i].Name], r.Roles[i].Name, want)
			}
		}
	}
	if twice := NewLedger(s.snap).Twice(); len(twice) > 0 {
		s.t.Fatalf("held twice: %v", twice)
	}
	places := map[string]bool{}
	used := map[string]int64{}
	for _, p := range s.snap.Placements {
		for _, m := range p.Members {
			if key := fmt.Sprint(p.UID, m.Role, m.Index); places[key] {
				s.t.Fatalf("%s has two places", key)
			} else {
				places[key] = true
			}
			if !m.Released {
				used[s.request(p.UID).Queue] += int64(len(m.GPUs))
			}
		}
	}
	if used["nlp"] > 4 && s.snap.Queues != nil {
		s.t.Fatalf("queue nlp holds %d GPUs, its limit is 4", used["nlp"])
	}
	for _, b := range s.told.GiveBacks {
		if b.Journal == "" {
			s.t.Fatalf("%+v", b)
		}
	}
}

// needless asserts that everything that was given back is needed: with any one
// of them kept, whoever it was given back for would not start. Where room is
// made for several, each keeps off the nodes of the others, and it is left.
func (s *elasticSim) needless() {
	s.t.Helper()
	if len(s.core.nominations) != 1 || len(s.told.Evictions) > 0 {
		return
	}
	for _, b := range s.told.GiveBacks {
		without := s.snap
		without.Placements = nil
		for _, p := range s.snap.Placements {
			ordered := slices.ContainsFunc(s.told.GiveBacks, func(o GiveBack) bool { return o.Journal == p.Journal && o.For == b.For })
			if p.Leaving && (!ordered || p.Journal != b.Journal) {
				continue // gone
			}
			p.Leaving = false
			without.Placements = append(without.Placements, p)
		}
		c := NewCore(Options{})
		without.Requests = slices.Clone(without.Requests)
		for i := range without.Requests {
			without.Requests[i].Grows = false
		}
		c.Sync(without)
		e := c.entries[s.uidOf(b.For)]
		if e == nil || e.placed {
			continue // a wish
		}
		if c.hasRoomOutside(e, nil) {
			s.t.Fatalf("%s-%d of %s is given back for %s, which has room without", b.Role, b.Index, b.Name, b.For)
		}
	}
}

func (s *elasticSim) uidOf(k Key) string {
	for _, r := range s.snap.Requests {
		if r.Key == k {
			return r.UID
		}
	}
	return ""
}

// sameBytes asserts that a new core decides the same of the same snapshot,
// whatever the order of its lists.
func (s *elasticSim) sameBytes() {
	s.t.Helper()
	other := s.snap
	other.Nodes, other.Requests = shuffled(s.rng, s.snap.Nodes), shuffled(s.rng, s.snap.Requests)
	other.Placements = shuffled(s.rng, s.snap.Placements)
	a, errA := json.Marshal(Decide(s.snap))
	b, errB := json.Marshal(Decide(other))
	if errA != nil || errB != nil || string(a) != string(b) {
		s.t.Fatalf("the order of lists changes the decision: %v %v\n%s\n%s", errA, errB, a, b)
	}
}

func TestWhatMustAlwaysHoldOfElasticGangs(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newElasticSim(t, seed)
			for range 12 {
				for range s.rng.IntN(3) {
					s.arrive()
				}
				s.sameBytes()
				s.pass()
				s.check()
				s.needless()
				s.live()
				if s.rng.IntN(8) == 0 {
					s.core = NewCore(Options{})
				}
			}
			// With nothing new, decisions come to rest, and nobody waits for what
			// others have beyond their minimum.
			s.rest()
			s.check()
			s.nobodyStarves()
		})
	}
}

// nobodyStarves asserts that at rest nothing waits that has room if all that is
// beyond a minimum is given back.
func (s *elasticSim) nobodyStarves() {
	s.t.Helper()
	c := s.core
	for _, e := range c.considered() {
		restore := c.lifting()
		gone, may := c.yielders(e)
		c.raiseAll(gone)
		c.raiseAll(may)
		if c.notNow(e, s.snap.Now) == nil && len(c.nominations) == 0 && c.hasRoomOutside(e, nil) {
			s.t.Fatalf("%s waits for what is beyond the minimum of others", e.req.UID)
		}
		restore()
	}
}
