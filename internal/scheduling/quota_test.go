package scheduling

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
)

// quotaOf is a quota of the namespace that test gangs are in.
func quotaOf(name string, terms ...QuotaTerm) Quota {
	return Quota{Key: Key{"vision", name}, Terms: terms}
}

func TestQuotas(t *testing.T) {
	limited := func(r *Request) {
		r.Roles[0].Counted = Counted{Limits: Resources{MilliCPU: 2000, Memory: 4 << 30}, PriorityClass: "high"}
	}
	tests := []struct {
		name   string
		quotas []Quota
		edit   func(*Request)
		// want is part of why it waits; empty: it starts.
		want string
	}{
		{name: "none"},
		{name: "of another namespace", quotas: []Quota{{Key: Key{"speech", "q"}, Terms: []QuotaTerm{{Resource: "pods"}}}}},
		{name: "just enough", quotas: []Quota{quotaOf("q", QuotaTerm{Resource: "pods", Hard: 7, Used: 3}, QuotaTerm{Resource: quotaRequests(quotaGPU), Hard: 4})}},
		{
			name: "one pod too many", quotas: []Quota{quotaOf("q", QuotaTerm{Resource: "pods", Hard: 7, Used: 4})},
			want: "quota q of namespace vision allows 7 pods, of which 4 pods are used, and this asks for 4 pods",
		},
		{
			name: "more GPUs than there will ever be", quotas: []Quota{quotaOf("gpus", QuotaTerm{Resource: quotaRequests(quotaGPU), Hard: 3})},
			want: "impossible now: this asks for 4 GPUs, and quota gpus of namespace vision allows 3 GPUs in all (requests.nvidia.com/gpu); ask for less, or have the quota raised",
		},
		{
			name: "what can never be is named first", quotas: []Quota{
				quotaOf("a", QuotaTerm{Resource: "pods", Hard: 7, Used: 7}), quotaOf("b", QuotaTerm{Resource: "cpu", Hard: 100}),
			},
			want: "impossible now: this asks for 0.4 CPUs, and quota b",
		},
		{
			name: "memory", quotas: []Quota{quotaOf("q", QuotaTerm{Resource: "requests.memory", Hard: 1 << 30, Used: 768 << 20})},
			want: "quota q of namespace vision allows 1 GiB of memory (requests.memory), of which 768 MiB of memory is used, and this asks for 512 MiB",
		},
		{
			name: "limits", edit: limited, quotas: []Quota{quotaOf("q", QuotaTerm{Resource: "limits.cpu", Hard: 9000, Used: 2000})},
			want: "quota q of namespace vision allows 9 CPUs (limits.cpu), of which 2 CPUs are used, and this asks for 8 CPUs",
		},
		{name: "limits that it has not", quotas: []Quota{quotaOf("q", QuotaTerm{Resource: "limits.cpu", Hard: 9000, Used: 9000})}},
		{
			name: "not counted yet", quotas: []Quota{quotaOf("q", QuotaTerm{Resource: "pods", Hard: 100, Uncounted: true})},
			want: "quota q of namespace vision is new or was changed",
		},
		{
			name: "a refusal for the same quota", edit: func(r *Request) { r.Refused = "exceeded quota: q" },
			quotas: []Quota{quotaOf("q", QuotaTerm{Resource: "pods", Hard: 7, Used: 7})}, want: "of which 7 pods are used",
		},
		{
			name: "a refusal for something else", edit: func(r *Request) { r.Refused = "no such service account" },
			quotas: []Quota{quotaOf("q", QuotaTerm{Resource: "pods", Hard: 7})}, want: "no such service account",
		},
		{
			name: "its scope takes it", edit: limited, want: "quota q",
			quotas: []Quota{{Key: Key{"vision", "q"}, Terms: []QuotaTerm{{Resource: "pods"}}, Scopes: []QuotaScope{
				{Kind: ScopeNotTerminating}, {Kind: ScopePriorityClass, Operator: "In", Values: []string{"high"}},
			}}},
		},
		{
			name: "its scope does not take it", edit: limited,
			quotas: []Quota{{Key: Key{"vision", "q"}, Terms: []QuotaTerm{{Resource: "pods"}}, Scopes: []QuotaScope{
				{Kind: ScopeNotTerminating}, {Kind: ScopePriorityClass, Operator: "NotIn", Values: []string{"high"}},
			}}},
		},
		{name: "members that are done count no more", edit: func(r *Request) { r.Roles[0].Done = []int32{0, 2} },
			quotas: []Quota{quotaOf("q", QuotaTerm{Resource: "pods", Hard: 7, Used: 5})}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := gang("g").role("worker", 4, 1)
			if tt.edit != nil {
				b = b.with(tt.edit)
			}
			s := Snapshot{Nodes: []Node{testNode("here", "A100", 8)}, Requests: []Request{b.obj()}, Quotas: tt.quotas}
			result := Decide(s)
			said := ""
			if len(result.Waiting) > 0 {
				said = result.Waiting[0].Reason.Render(clock)
			}
			if tt.want == "" && len(result.Plans) != 1 || !strings.Contains(said, tt.want) || tt.want != "" && len(result.Plans) > 0 {
				t.Errorf("%d plans; %q, want %q", len(result.Plans), said, tt.want)
			}
		})
	}
}

// quotaRequests is the name by which a quota limits requests of a resource.
func quotaRequests(name string) string { return "requests." + name }

// What is planned in a pass counts for what follows in it, and the smallest
// change that is advised starts the gang.
func TestQuotasCountWhatIsPlanned(t *testing.T) {
	t.Run("in turn", func(t *testing.T) { countsWhatIsPlanned(t, 0) })
	t.Run("overdue", func(t *testing.T) { countsWhatIsPlanned(t, Instant(1000*estimate.Hour)) })
}

func countsWhatIsPlanned(t *testing.T, now Instant) {
	s := Snapshot{Now: now, Nodes: []Node{testNode("here", "A100", 8)}, Quotas: []Quota{quotaOf("q", QuotaTerm{Resource: "pods", Hard: 5})}}
	for i := range 4 {
		s.Requests = append(s.Requests, gang(fmt.Sprintf("g%d", i)).role("worker", 2, 0).obj())
	}
	result := Decide(s)
	if len(result.Plans) != 2 || len(result.Waiting) != 2 {
		t.Fatalf("%d plans, %d wait", len(result.Plans), len(result.Waiting))
	}
	c := NewCore(Options{})
	p, ok := c.Preview(s, "uid-g3")
	if !ok || p.Plan != nil || p.Reason.Code() != CodeQuota {
		t.Fatalf("previewed: %+v", p)
	}
	if !slices.Contains(p.Advice, Advice(FewerMembers{Role: "worker", From: 2, To: 1})) {
		t.Errorf("advised: %+v", p.Advice)
	}
	if text := p.Reason.Render(clock); !strings.Contains(text, "held by vision/g0 (2 pods") {
		t.Errorf("said: %q", text)
	}
}

// TestQuotasAlwaysHold: random clusters, gangs and quotas that change; what is
// placed never comes to more than a quota allows, unless it did before the
// quota was made smaller; and what a quota alone kept back starts once it is
// gone.
func TestQuotasAlwaysHold(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newSim(t, seed)
			rng := rand.New(rand.NewPCG(seed, 2))
			if seed%2 == 1 {
				s.snap.Now = Instant(1000 * estimate.Hour) // all are overdue
			}
			hard := map[string]int64{}
			for range 12 {
				for _, resource := range []string{"pods", quotaRequests(quotaGPU), "requests.cpu"} {
					if most := map[string]int{"pods": 20, "requests.cpu": 20000}[resource]; rng.IntN(3) == 0 {
						hard[resource] = int64(rng.IntN(max(most, 10)))
					}
				}
				for range s.rng.IntN(4) {
					s.arrive()
				}
				for i := range s.snap.Requests {
					// Pods count since they were made: they are not what this is about.
					s.snap.Requests[i].Pod = false
				}
				before := s.used()
				s.snap.Quotas = []Quota{quotaOf("q")}
				for _, resource := range sortedKeys(hard) {
					s.snap.Quotas[0].Terms = append(s.snap.Quotas[0].Terms, QuotaTerm{Resource: resource, Hard: hard[resource], Used: before[resource]})
				}
				s.step()
				for resource, n := range s.used() {
					if most, some := hard[resource]; some && n > max(most, before[resource]) {
						t.Fatalf("%s: %d are used, %d allowed, %d were used before", resource, n, most, before[resource])
					}
				}
				s.freed()
				s.leave()
			}
		})
	}
}

// used adds up what the live members of all placements come to.
func (s *sim) used() map[string]int64 {
	out := map[string]int64{}
	for _, p := range s.snap.Placements {
		for _, m := range p.Members {
			if !m.Released {
				out["pods"]++
				out[quotaRequests(quotaGPU)] += int64(len(m.GPUs))
				out["requests.cpu"] += m.Resources.MilliCPU
			}
		}
	}
	return out
}

// freed asserts that without quotas the same decision is made as if there had
// never been any.
func (s *sim) freed() {
	without := s.snap
	without.Quotas = nil
	c := NewCore(Options{})
	c.Sync(s.snap)
	a, _ := json.Marshal(c.Pass(without))
	if b, _ := json.Marshal(Decide(without)); string(a) != string(b) {
		s.t.Fatalf("a quota that is gone is remembered:\n%s\n%s", a, b)
	}
}

// A large gang over a quota starts within a bound, however many small ones come
// after it; those that leave it its share start meanwhile.
func TestQuotaIsKeptForTheOverdue(t *testing.T) {
	for _, tt := range []struct {
		name     string
		hard     int64
		priority int32
		// starts is whether the large one starts; small is whether small ones do
		// while it waits.
		starts, small bool
	}{
		{name: "its share is kept", hard: 8, starts: true},
		{name: "there is enough for others beside it", hard: 11, starts: true, small: true},
		{name: "what is more important is not kept off", hard: 8, priority: 1, small: true},
		{name: "it is more than is allowed", hard: 5, small: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, now := NewCore(Options{}), Instant(estimate.Hour)
			c.SetNode(testNode("here", "A100", 16))
			large := gang("large").role("worker", 6, 1).obj()
			var running []string
			small := 0
			for i := range 200 {
				now += Instant(estimate.Hour)
				r := gang(fmt.Sprintf("small%03d", i)).role("worker", 1, 1).obj()
				r.Created, r.Priority = now, tt.priority
				c.SetRequest(r)
				if i == 20 {
					large.Created = now
					c.SetRequest(large)
				}
				if len(running) > 0 && (i > 20 || int64(len(running)) == min(8, tt.hard)) {
					c.Drop(running[0])
					running = running[1:]
				}
				used := int64(0)
				for _, e := range c.running {
					used += int64(len(e.held))
				}
				c.SetQuotas([]Quota{quotaOf("q", QuotaTerm{Resource: "pods", Hard: tt.hard, Used: used})})
				for _, p := range c.Decide(now).Plans {
					if p.UID == large.UID {
						if !tt.starts {
							t.Fatalf("the large one starts at %d", i)
						}
						if i > 75 {
							t.Fatalf("it starts after %d others have come", i)
						}
						return
					}
					if running = append(running, p.UID); i > 40 {
						small++
					}
				}
				for _, w := range c.Reasons(now, "") {
					if text := w.Reason.Render(clock); i > 62 && tt.starts && w.UID != large.UID && !strings.Contains(text, "kept for vision/large") {
						t.Fatalf("%s is told %q", w.Key, text)
					}
				}
			}
			if tt.starts || tt.small != (small > 0) {
				t.Errorf("the large one has not started; %d small ones did", small)
			}
		})
	}
}
