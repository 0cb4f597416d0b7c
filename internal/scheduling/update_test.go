package scheduling

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/placement"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// river is a cluster in which everything changes at random, and that remembers
// what did since it was last asked.
type river struct {
	t     *testing.T
	rng   *rand.Rand
	s     Snapshot
	next  int
	about map[string]bool
	nodes map[string]bool
	// queues is true if the queues changed, and quotas if the quotas did.
	queues, quotas bool
	// varied is true if all kinds of requests come, and not whole GPUs alone.
	varied bool
}

func newRiver(t *testing.T, seed uint64) *river {
	v := &river{t: t, rng: rand.New(rand.NewPCG(seed, 7)), about: map[string]bool{}, nodes: map[string]bool{}}
	v.s.Now, v.varied = Instant(100*estimate.Hour), seed%3 > 0
	for range 2 + v.rng.IntN(4) {
		v.node()
	}
	if v.rng.IntN(2) == 0 {
		v.requeue()
	}
	return v
}

var riverModels = []string{"A100", "H100"}

// node adds a node, or changes one.
func (v *river) node() {
	name := fmt.Sprintf("n%d", v.rng.IntN(6))
	n := testNode(name, riverModels[v.rng.IntN(2)], v.rng.IntN(9))
	n.Unschedulable = v.rng.IntN(6) == 0
	if v.varied {
		v.locate(&n)
		if n.Name[len(n.Name)-1]%2 == 0 {
			counting(&n)
		}
	}
	v.nodes[name] = true
	if at := slices.IndexFunc(v.s.Nodes, func(o Node) bool { return o.Name == name }); at >= 0 {
		v.s.Nodes[at] = n
		return
	}
	v.s.Nodes = append(v.s.Nodes, n)
}

func (v *river) dropNode() {
	if len(v.s.Nodes) < 2 {
		return
	}
	at := v.rng.IntN(len(v.s.Nodes))
	v.nodes[v.s.Nodes[at].Name] = true
	v.s.Nodes = slices.Delete(slices.Clone(v.s.Nodes), at, at+1)
}

func (v *river) requeue() {
	v.queues, v.s.Queues = true, nil
	for i := range v.rng.IntN(4) {
		v.s.Queues = append(v.s.Queues, queue.Spec{
			Name: fmt.Sprintf("q%d", i), Weight: 1, Guaranteed: queue.Amounts{"gpu": int64(v.rng.IntN(6)) * placement.Whole},
		})
	}
}

func (v *river) arrive() {
	v.next++
	r := gang(fmt.Sprintf("g%03d", v.next)).role("w", int32(1+v.rng.IntN(4)), int32(v.rng.IntN(4)), [][]string{nil, {"A100"}, {"H100", "A100"}}[v.rng.IntN(3)]...).obj()
	r.Created, r.Priority = v.s.Now-Instant(v.rng.IntN(10))*Instant(estimate.Hour), int32(v.rng.IntN(2))
	r.Queue, r.User = []string{"", "q0", "q1"}[v.rng.IntN(3)], []string{"ann", "bob"}[v.rng.IntN(2)]
	r.Evidence.Declared, r.Resumes = estimate.Span(v.rng.IntN(20))*estimate.Hour, v.rng.IntN(2) == 0
	if v.rng.IntN(5) == 0 {
		r.Pod, r.Roles[0].Replicas = true, 1
	}
	if v.varied {
		v.vary(&r)
	}
	v.s.Requests = append(v.s.Requests, r)
	v.about[r.UID] = true
}

// alter changes a request.
func (v *river) alter() {
	if len(v.s.Requests) == 0 {
		return
	}
	at := v.rng.IntN(len(v.s.Requests))
	r := v.s.Requests[at]
	switch v.rng.IntN(9) {
	case 0:
		r.Suspended = !r.Suspended
	case 1:
		r.Priority++
	case 2:
		r.NotBefore = v.s.Now + Instant(v.rng.IntN(3))*Instant(estimate.Hour)
	case 3:
		r.Finished = true
	case 4:
		r.Draining = !r.Draining
	case 5, 6:
		r.Grows = v.varied && !r.Grows
	case 7:
		v.finish(&r)
	case 8:
		r.Evidence.Reports = estimate.Reports{{Ran: estimate.Hour, Done: v.rng.Float64()}}
	}
	v.s.Requests = slices.Clone(v.s.Requests)
	v.s.Requests[at] = r
	v.about[r.UID] = true
}

// leave ends members, attempts, gangs and pods.
func (v *river) leave() {
	v.s.Placements = slices.DeleteFunc(slices.Clone(v.s.Placements), func(p Placement) bool {
		if v.rng.IntN(6) > 0 {
			return false
		}
		v.about[p.UID] = true
		if v.rng.IntN(2) == 0 {
			v.s.Requests = slices.DeleteFunc(slices.Clone(v.s.Requests), func(r Request) bool { return r.UID == p.UID })
		}
		return true
	})
	for i := range v.s.Placements {
		if p := &v.s.Placements[i]; v.rng.IntN(6) == 0 {
			p.Members = slices.Clone(p.Members)
			p.Members[v.rng.IntN(len(p.Members))].Released = true
			p.Saved = v.s.Now
			v.about[p.UID] = true
		}
	}
	v.s.Pods = slices.DeleteFunc(slices.Clone(v.s.Pods), func(p Pod) bool {
		gone := v.rng.IntN(6) == 0
		if gone {
			v.about[p.UID] = true
			if p.Gang != "" {
				v.about[p.Gang] = true
			}
		}
		return gone
	})
}

// intrude gives a device out a second time, behind the scheduler's back.
func (v *river) intrude() {
	n := v.s.Nodes[v.rng.IntN(len(v.s.Nodes))]
	if len(n.Devices) == 0 {
		return
	}
	v.next++
	part := Share{}
	if v.varied {
		part.Milli = int64(100 * v.rng.IntN(8))
	}
	p := Pod{Key: Key{"other", fmt.Sprint("p", v.next)}, Share: part, UID: fmt.Sprintf("%cod-%d", 'a'+v.rng.IntN(26), v.next), Node: n.Name, Since: v.s.Now,
		GPUs: []string{n.Devices[v.rng.IntN(len(n.Devices))].UUID}, Resources: Resources{MilliCPU: 10, Pods: 1}}
	if n.Counts && v.rng.IntN(3) > 0 {
		p.GPUs, p.Share, p.Loose = nil, Share{}, 1+v.rng.Int32N(3)
	}
	v.s.Pods = append(v.s.Pods, p)
	v.about[p.UID] = true
}

// journal notes what became of plans; some are refused.
func (v *river) journal(result Result) {
	for _, plan := range result.Plans {
		v.about[plan.UID] = true
		at := slices.IndexFunc(v.s.Requests, func(r Request) bool { return r.UID == plan.UID })
		if at < 0 || v.rng.IntN(5) == 0 {
			continue
		}
		if r := v.s.Requests[at]; r.Pod {
			m := plan.Members[0]
			v.s.Requests = slices.Delete(slices.Clone(v.s.Requests), at, at+1)
			v.s.Pods = append(v.s.Pods, Pod{
				Key: plan.Key, UID: plan.UID, Node: m.Node, Since: v.s.Now, GPUs: m.GPUs, Share: m.Share, Resources: r.Roles[0].Resources,
				Labels: r.Roles[0].Labels, Peers: r.Roles[0].Peers,
			})
			continue
		}
		v.s.Placements = append(v.s.Placements, v.written(plan))
	}
	v.resize(result)
}

// update is what changed since it was last called.
func (v *river) update() Update {
	u := Update{About: sortedKeys(v.about), QueuesChanged: v.queues, QuotasChanged: v.quotas || len(v.s.Quotas) > 0}
	u.Part.Now, u.Part.Queues, u.Part.Quotas = v.s.Now, v.s.Queues, v.s.Quotas
	for _, n := range v.s.Nodes {
		if v.nodes[n.Name] {
			u.Part.Nodes = append(u.Part.Nodes, n)
			delete(v.nodes, n.Name)
		}
	}
	u.NodesGone = sortedKeys(v.nodes)
	for _, r := range v.s.Requests {
		if v.about[r.UID] {
			u.Part.Requests = append(u.Part.Requests, r)
		}
	}
	for _, p := range v.s.Placements {
		if v.about[p.UID] {
			u.Part.Placements = append(u.Part.Placements, p)
		}
	}
	for _, p := range v.s.Pods {
		if v.about[p.UID] {
			u.Part.Pods = append(u.Part.Pods, p)
		}
	}
	v.about, v.nodes, v.queues, v.quotas = map[string]bool{}, map[string]bool{}, false, false
	return u
}

func (v *river) flow() {
	v.s.Now += Instant(estimate.Minute) * Instant(v.rng.IntN(200))
	v.leave()
	for range v.rng.IntN(4) {
		v.arrive()
	}
	for range v.rng.IntN(3) {
		v.alter()
	}
	switch v.rng.IntN(8) {
	case 0, 1:
		v.node()
	case 2:
		v.dropNode()
	case 3:
		v.requeue()
	case 4:
		v.intrude()
	case 5:
		v.allow()
	}
}

func words(t *testing.T, result Result) string {
	t.Helper()
	text, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A core that is told what changed decides and explains, to the byte, like one
// that is shown everything each time.
func TestToldLikeShown(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			v := newRiver(t, seed)
			told, shown := NewCore(Options{}), NewCore(Options{})
			for step := range 25 {
				v.flow()
				told.Apply(v.update())
				if diff := told.Differences(v.s, 5); diff != nil {
					t.Fatalf("step %d: not told of: %v", step, diff)
				}
				result := told.Decide(v.s.Now)
				result.Waiting = told.Reasons(v.s.Now, "")
				if a, b := words(t, result), words(t, shown.Pass(v.s)); a != b {
					t.Fatalf("step %d:\ntold  %s\nshown %s", step, a, b)
				}
				v.journal(result)
			}
		})
	}
}

// A core that was told of changes for a while stands where one stands that has
// just begun: the same is free for the same work.
func TestToldLikeNew(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			v := newRiver(t, seed)
			v.s.Queues, v.queues = nil, false
			told := NewCore(Options{})
			for step := range 25 {
				v.flow()
				v.s.Queues, v.queues = nil, false
				told.Apply(v.update())
				fresh := NewCore(Options{})
				fresh.RecallMix(told.Mix())
				fresh.Sync(v.s)
				if a, b := fmt.Sprint(told.Mix()), fmt.Sprint(fresh.Mix()); a != b {
					t.Fatalf("step %d: what usually comes is\ntold %s\nnew  %s", step, a, b)
				}
				for _, c := range []*Core{told, fresh} {
					if diff := c.Differences(v.s, 5); diff != nil {
						t.Fatalf("step %d: %v", step, diff)
					}
				}
				if a, b := free(told), free(fresh); a != b {
					t.Fatalf("step %d:\ntold %s\nnew  %s", step, a, b)
				}
				for _, c := range []*Core{told, fresh} {
					// Now, and not when enough of it has changed.
					if err := c.cluster.SetWorkload(c.usual.mix.Lesson()); err != nil {
						t.Fatal(err)
					}
				}
				for _, e := range told.waiting {
					o := fresh.entries[e.req.UID]
					f, ok := told.place(e, nil)
					g, same := fresh.place(o, nil)
					if ok != same {
						t.Fatalf("step %d: %s has room: told %v, new %v", step, e.req.Key, ok, same)
					}
					if ok {
						a, b := fmt.Sprint(f.assignments()), fmt.Sprint(g.assignments())
						f.back()
						g.back()
						if a != b {
							t.Fatalf("step %d: %s goes to\ntold %s\nnew  %s", step, e.req.Key, a, b)
						}
					}
				}
				v.journal(told.Decide(v.s.Now))
			}
		})
	}
}

// free is what the nodes of a core have left, who holds which devices, and what
// is beyond a minimum.
func free(c *Core) string {
	out := ""
	h := c.house()
	for _, r := range h.rooms {
		out += fmt.Sprintf("%s %+v ports %d:", r.node.Name, r.free, len(r.ports))
		for i, dev := range r.node.Devices {
			for _, who := range r.tenants[i] {
				out += fmt.Sprint(" ", dev.UUID, "=", who, who.share)
			}
		}
		out += "\n"
	}
	for _, e := range c.running {
		for i := range e.held {
			if h := &e.held[i]; h.extra && c.known(h.site) {
				out += fmt.Sprintln(e.req.Key, h.role, h.index, h.journal, "leaving", h.leaving)
			}
		}
	}
	return out
}

// What was shown before its node or device, or while another held it, is held
// as soon as that can be.
func TestHeldLater(t *testing.T) {
	held := func(uid string) Pod {
		return Pod{Key: Key{"x", uid}, UID: uid, Node: "n", GPUs: []string{"n-0"}, Resources: Resources{Pods: 1}}
	}
	tell := func(c *Core, nodes []Node, pods ...Pod) {
		u := Update{About: []string{"a", "b"}}
		u.Part.Nodes, u.Part.Pods = nodes, pods
		c.Apply(u)
	}
	tests := []struct {
		name string
		tell func(c *Core)
		want string
	}{
		{"the node comes later", func(c *Core) { tell(c, nil, held("a")); tell(c, []Node{testNode("n", "A100", 1)}, held("a")) }, "x/a"},
		{"the device comes later", func(c *Core) {
			tell(c, []Node{testNode("n", "A100", 0)}, held("a"))
			c.Apply(Update{Part: Snapshot{Nodes: []Node{testNode("n", "A100", 1)}}})
		}, "x/a"},
		{"two hold it, the later sorts first", func(c *Core) {
			tell(c, []Node{testNode("n", "A100", 1)}, held("b"))
			tell(c, nil, held("a"), held("b"))
		}, "x/a"},
		{"two hold it, and one ends", func(c *Core) {
			tell(c, []Node{testNode("n", "A100", 1)}, held("a"), held("b"))
			tell(c, nil, held("b"))
		}, "x/b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := NewCore(Options{})
			tt.tell(c)
			if who := c.house().rooms[0].tenants[0]; len(who) != 1 || who[0].String() != tt.want {
				t.Errorf("held by %v, want %s", who, tt.want)
			}
			c.SetRequest(gang("g").role("w", 1, 1).obj())
			if got := len(c.Decide(5).Plans); got != 0 {
				t.Error("the device is given out again")
			}
		})
	}
}
