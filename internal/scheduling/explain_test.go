package scheduling

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// jargon are words of the inside that no text for people may have.
var jargon = regexp.MustCompile(`(?i)entry|milli|quantile|snapshot|placement|promise|nominat|<nil>|%!|\bUID\b|map\[|\{|\}|0x`)

// busyWorld is a random cluster in which much runs and much waits.
func busyWorld(seed uint64) Snapshot {
	rng := rand.New(rand.NewPCG(seed, 5))
	s := Snapshot{Now: Instant(1000 * estimate.Second)}
	models := []string{"A100", "H100", "V100"}
	for i := range 2 + rng.IntN(5) {
		s.Nodes = append(s.Nodes, testNode(fmt.Sprintf("n%d", i), models[rng.IntN(len(models))], 1+rng.IntN(8)))
	}
	if rng.IntN(2) == 0 {
		s.Queues = []queue.Spec{
			{Name: "vision", Guaranteed: queue.Amounts{"gpu": int64(1000 * rng.IntN(6))}, NoBorrowing: rng.IntN(3) == 0},
			{Name: "nlp", Limit: queue.Amounts{"gpu": int64(1000 * rng.IntN(6))}, Stopped: rng.IntN(6) == 0},
		}
	}
	wants := [][]string{nil, {"A100"}, {"H100", "A100"}, {"K80"}}
	for i := range 6 + rng.IntN(16) {
		b := gang(fmt.Sprintf("g%d", i))
		b.r.Created, b.r.Priority = Instant(estimate.Span(1+rng.IntN(900))*estimate.Second), int32(rng.IntN(2))
		b.r.Queue = []string{"", "vision", "nlp"}[rng.IntN(3)]
		if len(s.Queues) == 0 {
			b.r.Queue = ""
		}
		b.r.User, b.r.Suspended = fmt.Sprintf("u%d", rng.IntN(3)), rng.IntN(20) == 0
		for k := range 1 + rng.IntN(2) {
			b.role(fmt.Sprintf("r%d", k), int32(1+rng.IntN(4)), int32(rng.IntN(6)), wants[rng.IntN(len(wants))]...)
			b.r.Roles[k].Resources.MilliCPU = int64(rng.IntN(9000))
			b.r.Roles[k].Resources.Memory = int64(rng.IntN(24)) << 30
		}
		if rng.IntN(2) == 0 {
			b.r.Evidence.Limit = estimate.Hour * estimate.Span(1+rng.IntN(30))
		}
		s.Requests = append(s.Requests, b.obj())
	}
	somewhere(seed, s.Nodes, s.Requests)
	// What the first decision starts runs; the rest waits for the second.
	for _, plan := range Decide(s).Plans {
		s.Placements = append(s.Placements, journal(s, plan))
	}
	s.Now += Instant(60 * estimate.Second)
	return s
}

// decided is a core after its decision on a snapshot.
func decided(s Snapshot) *Core {
	c := load(s)
	c.Decide(s.Now)
	return c
}

// Everything that waits has a reason in plain words, and the same answer comes
// out twice; explaining changes nothing.
func TestEveryWaitIsExplained(t *testing.T) {
	codes := map[Code]int{}
	for seed := range uint64(150) {
		s := busyWorld(seed)
		c := decided(s)
		before := standingOf(c)
		for _, e := range slices.Clone(c.waiting) {
			x, ok := c.Explain(e.req.UID, s.Now)
			if !ok || x.Reason == nil {
				t.Fatalf("seed %d: %s has no reason", seed, e.req.Key)
			}
			codes[x.Reason.Code()]++
			texts := []string{x.Reason.Render(clock)}
			if x.Position != nil {
				texts = append(texts, x.Position.Render())
				p := x.Position
				if p.Place < 1 || p.Place > p.Of || p.Priority+p.Overdue+p.Shorter+p.Older+p.Owed != p.Place-1 {
					t.Fatalf("seed %d: %s has the place %+v", seed, e.req.Key, *p)
				}
			}
			if x.Expected != nil {
				texts = append(texts, x.Expected.Render(clock))
				if x.Expected.From <= s.Now || x.Expected.To < x.Expected.From {
					t.Fatalf("seed %d: %s is expected in %+v at %d", seed, e.req.Key, *x.Expected, s.Now)
				}
			}
			for _, a := range x.Advice {
				codes[a.Code()]++
				texts = append(texts, a.Render(clock))
			}
			for _, text := range texts {
				if text == "" || jargon.MatchString(text) || strings.HasSuffix(text, ".") || strings.Contains(text, "  ") {
					t.Errorf("seed %d: %s: %q", seed, e.req.Key, text)
				}
			}
			again, _ := c.Explain(e.req.UID, s.Now)
			if a, b := encoded(t, x), encoded(t, again); a != b {
				t.Fatalf("seed %d: two answers:\n%s\n%s", seed, a, b)
			}
		}
		if after := standingOf(c); after != before {
			t.Fatalf("seed %d: explaining changed\n%s\ninto\n%s", seed, before, after)
		}
	}
	for _, code := range []Code{CodeGPUs, CodeQueue, CodeScattered, CodeResource, CodeFewerGPUs, CodeFewerMembers, CodeLess, CodeOtherModel, CodeLater,
		CodeDomainShort, CodeDomainTooSmall, CodeTooFewDomains, CodeWider, CodeTogether,
	} {
		if codes[code] == 0 {
			t.Errorf("none of the worlds came to %s: %v", code, codes)
		}
	}
}

func encoded(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// standingOf writes down what an explanation must not change.
func standingOf(c *Core) string {
	text := fmt.Sprint(c.cluster.Totals(), c.favoured, len(c.waiting), len(c.running))
	for _, s := range c.sites {
		text += fmt.Sprint(s.node.Name, s.milli, len(s.ports), len(s.here))
	}
	for class := range c.tree.Classes().Len() {
		text += fmt.Sprint(" ", c.tree.Used(queue.Root, queue.Class(class)))
	}
	return text
}

// Applying the advice starts the gang, and nothing smaller of its kind does.
func TestAdviceIsTheSmallestThatStarts(t *testing.T) {
	tried := 0
	for seed := range uint64(150) {
		s := busyWorld(seed)
		c := decided(s)
		for _, e := range slices.Clone(c.waiting) {
			x, _ := c.Explain(e.req.UID, s.Now)
			for _, a := range x.Advice {
				change, smaller := applied(a)
				if change == nil {
					continue
				}
				tried++
				if !startsWith(s, e.req.UID, change) {
					t.Errorf("seed %d: %s is told to %s, and does not start then", seed, e.req.Key, a.Render(clock))
				}
				if smaller != nil && startsWith(s, e.req.UID, smaller) {
					t.Errorf("seed %d: %s is told to %s, and less would do", seed, e.req.Key, a.Render(clock))
				}
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d pieces of advice were tried", tried)
	}
}

// applied turns advice into a change of a request, and into the next smaller
// one of its kind, nil where there is none.
func applied(a Advice) (change, smaller func(*Request)) {
	role := func(name string, edit func(*Role)) func(*Request) {
		return func(r *Request) {
			for i := range r.Roles {
				if r.Roles[i].Name == name {
					edit(&r.Roles[i])
				}
			}
		}
	}
	switch a := a.(type) {
	case FewerGPUs:
		change = role(a.Role, func(r *Role) { r.GPUs = a.To })
		if a.To+1 < a.From {
			smaller = role(a.Role, func(r *Role) { r.GPUs = a.To + 1 })
		}
	case FewerMembers:
		change = role(a.Role, func(r *Role) { r.Replicas = a.To })
		if a.To+1 < a.From {
			smaller = role(a.Role, func(r *Role) { r.Replicas = a.To + 1 })
		}
	case SmallerMembers:
		change = role(a.Role, func(r *Role) { r.Replicas, r.GPUs = a.ToMembers, a.ToGPUs })
	case OtherModel:
		change = role(a.Role, func(r *Role) { r.Models = append(slices.Clone(r.Models), a.Also) })
	case WiderDomain:
		change = func(r *Request) { r.Topology.Within, r.Topology.Required = a.To, true }
		if a.To == "" {
			change = func(r *Request) { r.Topology.Required = false }
		}
		if tried := a.From.wider(); tried[1] != a.To {
			smaller = func(r *Request) { r.Topology.Within = tried[slices.Index(tried, a.To)-1] }
		}
	case MayShareDomain:
		change = role(a.Role, func(r *Role) { r.Spread.Required = false })
	case LessOfResource:
		set := func(amount int64) func(*Request) {
			return role(a.Role, func(r *Role) {
				if a.Resource == resourceCPU {
					r.Resources.MilliCPU = amount
				} else {
					r.Resources.Memory = amount
				}
			})
		}
		change = set(a.To)
		if a.To+a.Step < a.From {
			smaller = set(a.To + a.Step)
		}
	}
	return change, smaller
}

// startsWith reports that a request would be planned if it were changed.
func startsWith(s Snapshot, uid string, change func(*Request)) bool {
	s.Requests = slices.Clone(s.Requests)
	for i := range s.Requests {
		if r := &s.Requests[i]; r.UID == uid {
			r.Roles = slices.Clone(r.Roles)
			change(r)
		}
	}
	return slices.ContainsFunc(Decide(s).Plans, func(p Plan) bool { return p.UID == uid })
}

// What a person reads, in the cases that the random worlds seldom come to.
func TestExplanationsInWords(t *testing.T) {
	hour := Instant(estimate.Hour)
	clock := func(at Instant) string { return fmt.Sprintf("%02d:00", at/hour) }
	held := func(name, node string, gpus int, edit func(*Request)) (Request, Placement) {
		r := gang(name).role("worker", 1, int32(gpus)).with(func(r *Request) {
			r.Created, r.Evidence.Declared = hour, 10*estimate.Hour
			if edit != nil {
				edit(r)
			}
		}).obj()
		p := Placement{Gang: r.Key, UID: r.UID, Attempt: 1, Created: 2 * hour, Members: []PlacedMember{
			{Assignment: Assignment{Role: "worker", Node: node}, Resources: r.Roles[0].Resources},
		}}
		for i := range gpus {
			p.Members[0].GPUs = append(p.Members[0].GPUs, fmt.Sprintf("%s-%d", node, i))
		}
		return r, p
	}
	world := func(edit func(*Request)) Snapshot {
		r, p := held("bert", "a", 6, edit)
		return Snapshot{Now: 3 * hour, Nodes: []Node{testNode("a", "A100", 8), testNode("b", "A100", 8)}, Requests: []Request{r}, Placements: []Placement{p}}
	}
	in := func(q string) func(*Request) { return func(r *Request) { r.Queue = q } }
	tests := []struct {
		name string
		snap Snapshot
		req  Request
		want []string
	}{
		{
			name: "the limit of a queue",
			snap: func() Snapshot {
				s := world(in("vision"))
				s.Queues = []queue.Spec{{Name: "vision", Limit: queue.Amounts{"gpu": 8000}}}
				return s
			}(),
			req: gang("g").role("worker", 1, 4).with(in("vision")).obj(),
			want: []string{
				"queue vision may use 8 GPUs and uses 6 GPUs, and this asks for 4 GPUs; held by vision/bert (6 GPUs since 02:00)",
				"queue vision may borrow 2 GPUs more after vision/bert ends, about 05:00",
				"ask for 2 GPUs for each worker instead of 4",
			},
		},
		{
			name: "a queue that lends nothing",
			snap: func() Snapshot {
				s := world(in("nlp"))
				s.Queues = []queue.Spec{{Name: "nlp"}, {Name: "vision", Guaranteed: queue.Amounts{"gpu": 4000}, NoBorrowing: true}}
				return s
			}(),
			req: gang("g").role("worker", 1, 6).with(in("vision")).obj(),
			want: []string{
				"queue vision may not borrow: it is guaranteed 4 GPUs and uses 0 GPUs, and this asks for 6 GPUs; borrowed by queue nlp: 6 GPUs",
				"ask for 4 GPUs for each worker instead of 6",
			},
		},
		{
			name: "no such queue", snap: func() Snapshot { s := world(nil); s.Queues = []queue.Spec{{Name: "vision"}}; return s }(),
			req:  gang("g").role("worker", 1, 1).with(in("visoin")).obj(),
			want: []string{"there is no queue visoin; create it, or name another"},
		},
		{
			name: "a stopped queue", snap: func() Snapshot { s := world(nil); s.Queues = []queue.Spec{{Name: "vision", Stopped: true}}; return s }(),
			req:  gang("g").role("worker", 1, 1).with(in("vision")).obj(),
			want: []string{"queue vision is stopped: nothing new starts in it"},
		},
		{
			name: "paused", snap: func() Snapshot { s := world(nil); s.Paused = "ada since noon"; return s }(),
			req:  gang("g").role("worker", 1, 1).obj(),
			want: []string{"nothing new is started, because scheduling is paused"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Created = 2 * hour
			tt.snap.Requests = append(tt.snap.Requests, tt.req)
			x, ok := Account(tt.snap, tt.req.Key, false)
			if !ok {
				t.Fatal("not found")
			}
			got := []string{x.Reason.Render(clock)}
			for _, a := range x.Advice {
				got = append(got, a.Render(clock))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A job that runs is told since when, and whether it may have to make room.
func TestTenureInWords(t *testing.T) {
	for _, tt := range []struct {
		tenure Tenure
		want   string
	}{
		{Tenure{Never: true}, "keeps what it has until it ends"},
		{Tenure{SafeUntil: 5, ForShorter: true}, "may be stopped for shorter work, and goes on from where it was saved, from 14:05 on"},
		{Tenure{SafeUntil: 5}, "may be stopped for more important work or for a queue that is guaranteed its share, from 14:05 on"},
		{Tenure{MakingRoom: 7}, "told at 14:07 to make room for others"},
	} {
		if got := tt.tenure.Render(clock); got != tt.want {
			t.Errorf("%q, not %q", got, tt.want)
		}
	}
}

// Room that is kept free for another is named, with until when.
func TestKeptFreeIsNamed(t *testing.T) {
	hour := Instant(estimate.Hour)
	c := NewCore(Options{Gain: -1})
	for _, name := range []string{"a", "b"} {
		c.SetNode(testNode(name, "A100", 8))
	}
	set := func(name string, replicas, gpus int32, created Instant, run estimate.Span) {
		c.SetRequest(gang(name).role("worker", replicas, gpus).with(func(r *Request) { r.Created, r.Evidence.Declared = created, run }).obj())
	}
	set("long", 1, 8, hour, 4*estimate.Hour)
	if plans := c.Decide(hour).Plans; len(plans) != 1 {
		t.Fatal("nothing runs")
	}
	set("wide", 2, 8, hour, estimate.Hour)
	c.Decide(2 * hour)
	now := 9 * hour // its patience is over
	set("small", 1, 2, 8*hour, 100*estimate.Hour)
	c.Decide(now)
	x, ok := c.Explain("uid-small", now)
	r, kept := x.Reason.(KeptFree)
	if !ok || !kept || r.For.Name != "wide" || r.Until <= now {
		t.Fatalf("%#v", x.Reason)
	}
	if len(x.Advice) == 0 || x.Advice[0].Code() != CodeShorter {
		t.Errorf("advice: %v", x.Advice)
	}
}
