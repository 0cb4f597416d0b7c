package scheduling

import (
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

// part gives the last role a share of a GPU instead of whole ones.
func (b *requestBuilder) part(milli, mib int64) *requestBuilder {
	r := &b.r.Roles[len(b.r.Roles)-1]
	r.GPUs, r.Share = 0, Share{Milli: milli, MiB: mib}
	return b
}

// gigabytes gives every device of a node so much memory.
func gigabytes(n Node, gib int64) Node {
	for i := range n.Devices {
		n.Devices[i].MemoryMiB = gib << 10
	}
	return n
}

// run has a snapshot's requests planned in their order, one after the other,
// and journalled.
func run(t *testing.T, s Snapshot, requests ...Request) Snapshot {
	t.Helper()
	for _, r := range requests {
		s.Requests = append(s.Requests, r)
		for _, plan := range Decide(s).Plans {
			s.Placements = append(s.Placements, journal(s, plan))
		}
	}
	return s
}

func TestSharesOfOneDevice(t *testing.T) {
	node := gigabytes(testNode("here", "A100", 2), 40)
	half := func(name string) Request { return gang(name).role("worker", 1, 0).part(500, 0).obj() }
	for _, c := range []struct {
		name string
		held []Request
		want Request
		// share is what it is given, on is how many others have of its device;
		// why is what is said if it waits.
		share Share
		on    int64
		why   string
	}{
		{"beside the first", []Request{half("a")}, half("b"), Share{500, 20480}, 500, ""},
		{"on another device", []Request{half("a"), half("b")}, half("c"), Share{500, 20480}, 0, ""},
		{"none is left", []Request{half("a"), half("b"), half("c"), half("d")}, half("e"), Share{}, 0,
			"needs 500m of a GPU; the freest has 0m; held by vision/a (500m), vision/b (500m), vision/c (500m), vision/d (500m)"},
		{"memory brings its part of the GPU", nil, gang("m").role("worker", 1, 0).part(0, 10240).obj(), Share{250, 10240}, 0, ""},
		{"memory is rounded up to a thousandth", nil, gang("m").role("worker", 1, 0).part(0, 10241).obj(), Share{251, 10241}, 0, ""},
		{"both as they are", nil, gang("m").role("worker", 1, 0).part(100, 30000).obj(), Share{100, 30000}, 0, ""},
		{"all memory is the whole", nil, gang("m").role("worker", 1, 0).part(0, 40960).obj(), Share{1000, 40960}, 0, ""},
		{"more memory than any has", nil, gang("m").role("worker", 1, 0).part(0, 40961).obj(), Share{}, 0,
			"impossible now: needs 40961 MiB of the memory of a GPU; the largest has 40 GiB"},
		{"memory is short, not the GPU", []Request{gang("a").role("worker", 2, 0).part(100, 30720).obj()},
			gang("m").role("worker", 1, 0).part(100, 20480).obj(), Share{}, 0,
			"needs 100m of a GPU and 20 GiB of its memory; the freest has 900m and 10 GiB; held by vision/a (200m and 60 GiB)"},
		{"the memory that comes with a share is short", []Request{gang("a").role("worker", 2, 0).part(100, 30720).obj()},
			half("b"), Share{}, 0,
			"needs 500m of a GPU and 20 GiB of its memory; the freest has 900m and 10 GiB; held by vision/a (200m and 60 GiB)"},
		{"a whole one does not take what is shared", []Request{half("a")}, gang("w").role("worker", 1, 2).obj(), Share{}, 0,
			"needs 2 GPUs at once; 1 is free here, 500m is held by vision/a"},
		{"a whole one holds", []Request{gang("w").role("worker", 1, 2).obj()}, half("a"), Share{}, 0,
			"needs 500m of a GPU; the freest has 0m; held by vision/w (2 GPUs)"},
		{"more members than all devices have", nil, gang("m").role("worker", 5, 0).part(500, 0).obj(), Share{}, 0,
			"impossible now: needs 500m of a GPU for each of 5 workers at once; if everything were free there would be room for 4 of them"},
		{"another model", nil, gang("m").role("worker", 1, 0, "H100").part(500, 0).obj(), Share{}, 0,
			"impossible now: no node has an H100; this machine has 2 A100"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := run(t, Snapshot{Nodes: []Node{node}}, c.held...)
			if len(s.Placements) != len(c.held) {
				t.Fatalf("%d of %d were placed before", len(s.Placements), len(c.held))
			}
			before := NewLedger(s)
			s.Requests = append(s.Requests, c.want)
			result := Decide(s)
			if c.why != "" {
				if len(result.Plans) > 0 || len(result.Waiting) != 1 || result.Waiting[0].Reason.Render(clock) != c.why {
					t.Fatalf("got %+v, %q; want %q", result.Plans, result.Waiting[0].Reason.Render(clock), c.why)
				}
				return
			}
			if len(result.Plans) != 1 {
				t.Fatalf("it waits: %s", result.Waiting[0].Reason.Render(clock))
			}
			m := result.Plans[0].Members[0]
			if m.Share != c.share || len(m.GPUs) != 1 || before.Held(m.Node, m.GPUs[0]).Milli != c.on {
				t.Errorf("got %+v beside %+v; want %+v beside %dm", m, before.Held(m.Node, m.GPUs[0]), c.share, c.on)
			}
		})
	}
}

// TestMemoryOfUnknownSize: a GPU that does not tell its memory serves shares
// of itself, and none of its memory.
func TestMemoryOfUnknownSize(t *testing.T) {
	s := Snapshot{Nodes: []Node{testNode("here", "A100", 1)}}
	s = run(t, s, gang("a").role("worker", 1, 0).part(300, 0).obj())
	if len(s.Placements) != 1 || s.Placements[0].Members[0].Share != (Share{Milli: 300}) {
		t.Fatalf("got %+v", s.Placements)
	}
	s.Requests = append(s.Requests, gang("m").role("worker", 1, 0).part(0, 1024).obj())
	want := "impossible now: needs 1 GiB of the memory of a GPU; no such GPU here tells how much memory it has"
	if w := Decide(s).Waiting; len(w) != 1 || w[0].Reason.Render(clock) != want {
		t.Errorf("got %+v; want %q", w, want)
	}
}

func TestInvalidIsSaidAndNeverPlanned(t *testing.T) {
	s := Snapshot{Nodes: []Node{testNode("here", "A100", 1)}}
	s.Requests = []Request{gang("a").role("pod", 1, 0).with(func(r *Request) { r.Pod, r.Unsupported = true, "a share is below one GPU" }).obj()}
	result := Decide(s)
	if len(result.Plans) > 0 || result.Waiting[0].Reason.Render(clock) != "a share is below one GPU" {
		t.Errorf("got %+v", result)
	}
}

// TestSmallerShare asks for the largest part that is free.
func TestSmallerShare(t *testing.T) {
	s := Snapshot{Nodes: []Node{gigabytes(testNode("here", "A100", 1), 40)}}
	s = run(t, s, gang("a").role("worker", 1, 0).part(900, 0).obj())
	for _, c := range []struct {
		request Request
		want    []string
	}{
		{gang("b").role("worker", 1, 0).part(250, 0).obj(), []string{"ask for 100m of a GPU for each worker instead of 250m"}},
		{gang("b").role("worker", 1, 0).part(0, 8192).obj(), []string{"ask for 4 GiB of the memory of a GPU for each worker instead of 8 GiB"}},
		{gang("b").role("worker", 2, 0).part(100, 1024).obj(), []string{
			"ask for 1 worker instead of 2", "ask for 50m of a GPU for each worker instead of 100m",
		}},
	} {
		trial := s
		trial.Requests = append(slices.Clone(s.Requests), c.request)
		x, _ := decided(trial).Explain(c.request.UID, trial.Now)
		var got []string
		for _, a := range x.Advice {
			got = append(got, a.Render(clock))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", x.Reason.Render(clock), diff)
		}
	}
}

// A queue's limit counts parts of GPUs.
func TestSharesAreCharged(t *testing.T) {
	s := Snapshot{
		Nodes:  []Node{gigabytes(testNode("here", "A100", 2), 40)},
		Queues: []queue.Spec{{Name: "vision", Limit: queue.Amounts{"gpu": 700}}},
	}
	in := func(name string, milli, mib int64) Request {
		return gang(name).role("worker", 1, 0).part(milli, mib).with(func(r *Request) { r.Queue = "vision" }).obj()
	}
	s = run(t, s, in("a", 500, 0), in("b", 0, 4096))
	if len(s.Placements) != 2 {
		t.Fatalf("%d are placed; want 500m and 100m", len(s.Placements))
	}
	s.Requests = append(s.Requests, in("c", 101, 0))
	result := Decide(s)
	if len(result.Plans) > 0 || result.Waiting[0].Reason.Code() != CodeQueue {
		t.Fatalf("got %+v", result)
	}
	if text := result.Waiting[0].Reason.Render(clock); !strings.Contains(text, "may use 0.7 GPUs and uses 0.6 GPUs, and this asks for 0.101 GPUs") {
		t.Errorf("got %q", text)
	}
	s.Requests[2] = in("c", 100, 0)
	if result := Decide(s); len(result.Plans) != 1 {
		t.Errorf("100m do not fit: %+v", result.Waiting)
	}
}

// A quota on thousandths or memory of GPUs counts what is asked for.
func TestSharesInQuotas(t *testing.T) {
	q := Quota{Key: Key{"vision", "q"}}
	r := Role{Share: Share{Milli: 250, MiB: 8192}}
	for resource, want := range map[string]int64{
		"requests.muster.dev/gpu-milli": 250, "requests.muster.dev/gpu-memory": 8 << 30, "requests.nvidia.com/gpu": 0,
	} {
		if got := q.Of(&r, resource); got != want {
			t.Errorf("%s counts %d; want %d", resource, got, want)
		}
	}
}

// sharedWorld is a random cluster of which GPUs are asked for in every way.
type sharedWorld struct {
	*sim
	// core is told of every change; it must agree with a new one.
	core *Core
}

func newSharedWorld(t *testing.T, seed uint64) *sharedWorld {
	w := &sharedWorld{sim: newSim(t, seed), core: NewCore(Options{})}
	for i := range w.snap.Nodes {
		w.snap.Nodes[i] = gigabytes(w.snap.Nodes[i], int64(w.rng.IntN(3))*40)
	}
	return w
}

// arrive adds a gang or pod that asks for shares, memory, whole GPUs or none.
func (w *sharedWorld) arrive() {
	w.sim.arrive()
	r := &w.snap.Requests[len(w.snap.Requests)-1]
	r.Roles = slices.Clone(r.Roles)
	for i := range r.Roles {
		role := &r.Roles[i]
		switch w.rng.IntN(5) {
		case 0:
			role.GPUs, role.Share = 0, Share{Milli: 1 + w.rng.Int64N(999)}
		case 1:
			role.GPUs, role.Share = 0, Share{MiB: 1 + w.rng.Int64N(90000)}
		case 2:
			role.GPUs, role.Share = 0, Share{Milli: 1 + w.rng.Int64N(999), MiB: 1 + w.rng.Int64N(50000)}
		}
	}
}

// step decides, checks every plan, journals and checks the sums.
func (w *sharedWorld) step() {
	result := Decide(w.snap)
	w.deterministic(result)
	for _, plan := range result.Plans {
		req := w.request(plan.UID)
		w.granted(req, plan)
		if plan.Pod {
			m := plan.Members[0]
			w.snap.Pods = append(w.snap.Pods, Pod{
				Key: plan.Key, UID: plan.UID, Node: m.Node, GPUs: m.GPUs, Share: m.Share, Resources: req.Roles[0].Resources,
			})
			w.drop(plan.UID)
			continue
		}
		w.snap.Placements = append(w.snap.Placements, journal(w.snap, plan))
	}
	w.fits()
	w.agrees()
}

// granted asserts that every member was given what it asked for.
func (w *sharedWorld) granted(req Request, plan Plan) {
	memory := map[string]int64{}
	for _, n := range w.snap.Nodes {
		for _, d := range n.Devices {
			memory[d.UUID] = d.MemoryMiB
		}
	}
	at := 0
	for _, r := range req.Roles {
		for range r.Replicas {
			m := plan.Members[at]
			at++
			if !r.Share.some() {
				if len(m.GPUs) != int(r.GPUs) || m.Share.some() {
					w.t.Fatalf("%d whole GPUs were asked for, and it got %+v", r.GPUs, m)
				}
				continue
			}
			if len(m.GPUs) != 1 || m.Share.Milli < max(1, r.Share.Milli) || m.Share.MiB < r.Share.MiB {
				w.t.Fatalf("%+v was asked for, and it got %+v", r.Share, m)
			}
			if size := memory[m.GPUs[0]]; r.Share.MiB == 0 && m.Share.MiB != r.Share.Milli*size/placement.Whole {
				w.t.Fatalf("%+v of a GPU with %d MiB got %+v", r.Share, size, m.Share)
			}
		}
	}
}

// fits asserts, from the journal alone, that no device gives more than it has.
func (w *sharedWorld) fits() {
	if twice := NewLedger(w.snap).Twice(); len(twice) > 0 {
		w.t.Fatalf("given out beyond what there is: %v", twice)
	}
	milli, mib := map[string]int64{}, map[string]int64{}
	count := func(node string, gpus []string, s Share) {
		for _, uuid := range gpus {
			uuid = node + "/" + uuid // the names of counted devices are their node's
			if s == (Share{}) {
				s = Share{Milli: 1000}
			}
			milli[uuid] += s.Milli
			mib[uuid] += s.MiB
		}
	}
	for _, p := range w.snap.Placements {
		for _, m := range p.Members {
			if !m.Released {
				count(m.Node, m.GPUs, m.Share)
			}
		}
	}
	for _, p := range w.snap.Pods {
		count(p.Node, p.GPUs, p.Share)
	}
	for _, n := range w.snap.Nodes {
		for _, d := range n.Devices {
			if key := n.Name + "/" + d.UUID; milli[key] > 1000 || mib[key] > d.MemoryMiB {
				w.t.Fatalf("%s with %d MiB gives %dm and %d MiB", key, d.MemoryMiB, milli[key], mib[key])
			}
		}
	}
}

// agrees asserts that a core that was told of every change has the tables of
// one that adopts all there is, whatever the order.
func (w *sharedWorld) agrees() {
	w.core.Sync(w.snap)
	other := w.snap
	other.Placements = shuffled(w.rng, w.snap.Placements)
	other.Pods = shuffled(w.rng, w.snap.Pods)
	if diff := cmp.Diff(tables(load(other)), tables(w.core)); diff != "" {
		w.t.Fatalf("adopting comes to other tables (-adopted +told):\n%s", diff)
	}
}

// tables is what is free everywhere.
func tables(c *Core) map[string]placement.Free {
	out := map[string]placement.Free{}
	for _, id := range c.cluster.Nodes(nil) {
		out[c.cluster.Name(id)] = c.cluster.Free(id)
	}
	return out
}

func TestNoDeviceGivesMoreThanItHas(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newSharedWorld(t, seed)
			for range 12 {
				for range w.rng.IntN(4) {
					w.arrive()
				}
				w.step()
				w.leave()
			}
			// When all is gone, all is free.
			w.snap.Requests, w.snap.Placements, w.snap.Pods = nil, nil, nil
			w.agrees()
			for name, free := range tables(w.core) {
				for _, d := range free.Devices {
					if d.Milli != placement.Whole {
						t.Errorf("%s: %+v is not free", name, d)
					}
				}
			}
		})
	}
}

// Applying the smallest change to a share starts the gang, and a thousandth or
// a MiB more does not.
func TestSmallerShareIsTheSmallestChange(t *testing.T) {
	tried := 0
	for seed := range uint64(80) {
		s := sharedBusyWorld(seed)
		c := decided(s)
		for _, e := range slices.Clone(c.waiting) {
			x, _ := c.Explain(e.req.UID, s.Now)
			if text := x.Reason.Render(clock); text == "" || jargon.MatchString(text) {
				t.Errorf("seed %d: %q", seed, text)
			}
			for _, a := range x.Advice {
				smaller, ok := a.(SmallerShare)
				if !ok {
					continue
				}
				tried++
				to := func(s Share) func(*Request) {
					return func(r *Request) {
						for i := range r.Roles {
							if r.Roles[i].Name == smaller.Role {
								r.Roles[i].Share = s
							}
						}
					}
				}
				if !startsWith(s, e.req.UID, to(smaller.To)) {
					t.Errorf("seed %d: %s is told to %s, and does not start then", seed, e.req.Key, a.Render(clock))
				}
				next := smaller.To
				if next.Milli != smaller.From.Milli {
					next.Milli++
				} else {
					next.MiB++
				}
				if next != smaller.From && startsWith(s, e.req.UID, to(next)) {
					t.Errorf("seed %d: %s is told to %s, and less would do", seed, e.req.Key, a.Render(clock))
				}
			}
		}
	}
	if tried < 50 {
		t.Errorf("only %d pieces of advice were tried", tried)
	}
}

// sharedBusyWorld is a cluster of few devices in which many parts of them are
// held and many wait.
func sharedBusyWorld(seed uint64) Snapshot {
	rng := rand.New(rand.NewPCG(seed, 11))
	s := Snapshot{Now: Instant(1000 * estimate.Second)}
	for i := range 1 + rng.IntN(2) {
		s.Nodes = append(s.Nodes, gigabytes(testNode(fmt.Sprintf("n%d", i), "A100", 1+rng.IntN(2)), 40))
	}
	for i := range 12 {
		b := gang(fmt.Sprintf("g%d", i)).role("r", int32(1+rng.IntN(2)), 0)
		switch rng.IntN(4) {
		case 0:
			b.part(1+rng.Int64N(999), 0)
		case 1:
			b.part(0, 1+rng.Int64N(40960))
		case 2:
			b.part(1+rng.Int64N(999), 1+rng.Int64N(40960))
		default:
			b.r.Roles[0].GPUs = 1
		}
		b.r.Created = Instant(estimate.Span(1+i) * estimate.Second)
		s.Requests = append(s.Requests, b.obj())
	}
	for _, plan := range Decide(s).Plans {
		s.Placements = append(s.Placements, journal(s, plan))
	}
	return s
}
