package scheduling

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
)

// sim is a random cluster that lives: gangs come, are placed, end in part or
// are killed.
type sim struct {
	t    *testing.T
	rng  *rand.Rand
	snap Snapshot
	next int
	// places draws where requests are to be, so that all else stays as it was.
	places *rand.Rand
}

func newSim(t *testing.T, seed uint64) *sim {
	s := &sim{t: t, rng: rand.New(rand.NewPCG(seed, 1)), places: rand.New(rand.NewPCG(seed, 51))}
	models := []string{"A100", "H100", "V100"}
	for i := range 1 + s.rng.IntN(4) {
		n := testNode(fmt.Sprintf("n%d", i), models[s.rng.IntN(len(models))], s.rng.IntN(9))
		if s.rng.IntN(3) == 0 {
			n.Ports = nil
		}
		for d := range n.Devices {
			switch s.rng.IntN(12) {
			case 0:
				n.Devices[d].Unhealthy = "broken"
			case 1:
				n.Devices[d].Foreign = []Process{{PID: 7}}
			case 2:
				n.Devices[d].Model = "T4"
			}
		}
		if s.places.IntN(3) == 0 {
			counting(&n)
		}
		s.snap.Nodes = append(s.snap.Nodes, n)
	}
	somewhere(seed, s.snap.Nodes, nil)
	return s
}

// arrive adds a random gang, and sometimes a lone pod.
func (s *sim) arrive() {
	s.next++
	b := gang(fmt.Sprintf("g%d", s.next))
	b.r.Created, b.r.Priority = Instant(s.rng.IntN(5)), int32(s.rng.IntN(3))
	models := [][]string{nil, {"A100"}, {"H100", "A100"}, {"T4"}, {"K80"}}
	for i := range 1 + s.rng.IntN(3) {
		b.role(fmt.Sprintf("r%d", i), int32(1+s.rng.IntN(4)), int32(s.rng.IntN(4)), models[s.rng.IntN(len(models))]...)
		b.r.Roles[i].Resources.MilliCPU = int64(s.rng.IntN(4000))
	}
	if s.rng.IntN(4) == 0 {
		b.r.Pod, b.r.Roles = true, b.r.Roles[:1]
		b.r.Roles[0].Replicas = 1
	}
	anyhow(s.places, &b.r)
	s.snap.Requests = append(s.snap.Requests, b.obj())
}

// leave ends members, or whole gangs, at random.
func (s *sim) leave() {
	var placements []Placement
	for _, p := range s.snap.Placements {
		switch s.rng.IntN(4) {
		case 0:
			s.drop(p.UID)
			continue
		case 1:
			p.Members[s.rng.IntN(len(p.Members))].Released = true
		}
		placements = append(placements, p)
	}
	s.snap.Placements = placements
	var pods []Pod
	for _, p := range s.snap.Pods {
		if s.rng.IntN(4) > 0 {
			pods = append(pods, p)
		}
	}
	s.snap.Pods = pods
	s.others()
}

// others puts pods of another scheduler on nodes that count their devices, as
// many as a kubelet would take.
func (s *sim) others() {
	n := &s.snap.Nodes[s.places.IntN(len(s.snap.Nodes))]
	free := len(n.Devices) - s.counted(n.Name)
	if !n.Counts || free <= 0 {
		return
	}
	s.next++
	s.snap.Pods = append(s.snap.Pods, Pod{
		Key: Key{"other", fmt.Sprint("p", s.next)}, UID: fmt.Sprintf("%c-%d", 'a'+s.places.IntN(26), s.next),
		Node: n.Name, Loose: 1 + s.places.Int32N(int32(free)),
	})
}

// counted is how many devices of a node are held, with names and without.
func (s *sim) counted(node string) int {
	sum := 0
	for _, h := range NewLedger(s.snap).Holdings() {
		if h.Node == node {
			sum += len(h.GPUs) + int(h.Loose)
		}
	}
	return sum
}

func (s *sim) drop(uid string) {
	var rest []Request
	for _, r := range s.snap.Requests {
		if r.UID != uid {
			rest = append(rest, r)
		}
	}
	s.snap.Requests = rest
}

// step decides, checks and journals.
func (s *sim) step() {
	result := Decide(s.snap)
	s.deterministic(result)
	for _, plan := range result.Plans {
		s.whole(plan)
		if plan.Pod {
			m := plan.Members[0]
			s.snap.Pods = append(s.snap.Pods, Pod{Key: plan.Key, UID: plan.UID, Node: m.Node, GPUs: m.GPUs, Resources: s.request(plan.UID).Roles[0].Resources})
			s.drop(plan.UID)
			continue
		}
		s.snap.Placements = append(s.snap.Placements, journal(s.snap, plan))
	}
	for _, w := range result.Waiting {
		if w.Reason.Render(clock) == "" {
			s.t.Fatal("a wait without a reason")
		}
	}
	s.sums()
}

func (s *sim) request(uid string) Request {
	for _, r := range s.snap.Requests {
		if r.UID == uid {
			return r
		}
	}
	s.t.Fatalf("a plan for nobody: %s", uid)
	return Request{}
}

// whole asserts that a plan has every member, each with what it asked for, of
// one model that will do, on devices that may be given out.
func (s *sim) whole(plan Plan) {
	req := s.request(plan.UID)
	devices := map[string]Device{}
	for _, n := range s.snap.Nodes {
		for _, d := range n.Devices {
			devices[n.Name+"/"+d.UUID] = d
		}
	}
	at := 0
	for _, r := range req.Roles {
		for i := range r.Replicas {
			m := plan.Members[at]
			at++
			if m.Role != r.Name || m.Index != i || len(m.GPUs) != int(r.GPUs) || m.Node == "" {
				s.t.Fatalf("member %s-%d got %+v", r.Name, i, m)
			}
			for _, uuid := range m.GPUs {
				d, ok := devices[m.Node+"/"+uuid]
				if !ok || !d.usable() || !r.accepts(d) || d.Model != devices[m.Node+"/"+m.GPUs[0]].Model {
					s.t.Fatalf("%s-%d was given %s: %+v", r.Name, i, uuid, d)
				}
			}
		}
	}
	if at != len(plan.Members) {
		s.t.Fatalf("%d members planned, %d wanted", len(plan.Members), at)
	}
	if where := astray(s.snap.Nodes, req, plan); where != "" {
		s.t.Fatalf("%s has to be %s", plan.Key, where)
	}
}

// sums asserts that nothing is held twice, no node is overdrawn, and the
// ledger is the sum of the live placements and pods.
func (s *sim) sums() {
	l := NewLedger(s.snap)
	if twice := l.Twice(); len(twice) > 0 {
		s.t.Fatalf("held twice: %v", twice)
	}
	want := map[string]bool{}
	ports := map[string]bool{}
	used := map[string]Resources{}
	for _, p := range s.snap.Placements {
		for _, m := range p.Members {
			if m.Released {
				continue
			}
			for _, uuid := range m.GPUs {
				want[m.Node+"/"+uuid] = true
			}
			used[m.Node] = used[m.Node].plus(m.Resources)
			if key := fmt.Sprint(m.Node, m.Port); m.Port != 0 {
				if ports[key] {
					s.t.Fatalf("port %s is held twice", key)
				}
				ports[key] = true
			}
		}
	}
	for _, p := range s.snap.Pods {
		for _, uuid := range p.GPUs {
			want[p.Node+"/"+uuid] = true
		}
		used[p.Node] = used[p.Node].plus(p.Resources)
	}
	for _, n := range s.snap.Nodes {
		if short := n.Allocatable.short(used[n.Name]); short != "" {
			s.t.Fatalf("%s is overdrawn in %s", n.Name, short)
		}
		if held := s.counted(n.Name); n.Counts && held > len(n.Devices) {
			s.t.Fatalf("%d devices of %s are held, and it has %d", held, n.Name, len(n.Devices))
		}
		for _, d := range n.Devices {
			if _, held := l.Holder(n.Name, d.UUID); held != want[n.Name+"/"+d.UUID] {
				s.t.Fatalf("the ledger says %v of %s, the placements %v", held, d.UUID, want[n.Name+"/"+d.UUID])
			}
		}
	}
}

// deterministic asserts that the same snapshot, its lists in another order,
// gives the same bytes.
func (s *sim) deterministic(result Result) {
	other := s.snap
	other.Nodes = shuffled(s.rng, s.snap.Nodes)
	other.Requests = shuffled(s.rng, s.snap.Requests)
	other.Placements = shuffled(s.rng, s.snap.Placements)
	other.Pods = shuffled(s.rng, s.snap.Pods)
	for i := range other.Nodes {
		other.Nodes[i].Devices = shuffled(s.rng, other.Nodes[i].Devices)
	}
	a, errA := json.Marshal(result)
	b, errB := json.Marshal(Decide(other))
	if errA != nil || errB != nil {
		s.t.Fatal(errA, errB)
	}
	if string(a) != string(b) {
		s.t.Fatalf("the order of lists changes the decision:\n%s\n%s", a, b)
	}
}

func shuffled[T any](rng *rand.Rand, list []T) []T {
	out := append([]T{}, list...)
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func TestWhatMustAlwaysHold(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newSim(t, seed)
			for range 15 {
				for range s.rng.IntN(4) {
					s.arrive()
				}
				s.step()
				s.leave()
			}
		})
	}
}

func BenchmarkDecideThousandWaiting(b *testing.B) {
	s := Snapshot{Nodes: []Node{testNode("here", "A100", 8)}}
	for i := range 1000 {
		s.Requests = append(s.Requests, gang(fmt.Sprintf("g%d", i)).role("ps", 2, 0).role("worker", 3, 2, "A100").obj())
	}
	for b.Loop() {
		Decide(s)
	}
}
