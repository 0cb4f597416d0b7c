package scheduling

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/muster-dev/muster/internal/scheduling/estimate"
	"github.com/muster-dev/muster/internal/scheduling/placement"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// happening is one thing that happens in a episode. Those that name something
// name it by a number that is taken modulo what there is, so that a episode
// makes sense also after others were left out.
type happening struct {
	At   estimate.Span
	Kind string
	// Request arrives; Run is how long it takes in truth.
	Request Request
	Run     estimate.Span
	Number  int
}

// episode is a small cluster and all that happens to it.
type episode struct {
	Options Options
	Nodes   []Node
	Queues  []queue.Spec
	Events  []happening
}

// job is a request in a episode.
type job struct {
	req    Request
	run    estimate.Span
	placed bool
	plan   Plan
	since  Instant
	// leaves is when it is gone after it was told to go; 0: it was not told.
	leaves Instant
}

// stage plays a episode. It has its own books, which it compares with the
// core's.
type stage struct {
	episode
	core *Core
	now  Instant
	jobs map[string]*job
	// down are the nodes that are not there at the moment, by name.
	down map[string]bool
	log  []byte
	// learned is what the core was told of run times, in order.
	learned []lesson
	// evictions counts them; those since the last arrival are fresh.
	evictions, fresh int
	arrived          int
	// decided counts decisions. After the one with number stopAfter nothing
	// happens any more but that those leave who were told to.
	decided, stopAfter int
	// told is what the last decision evicted.
	last Result
	err  error
}

type lesson struct {
	evidence estimate.Evidence
	ran      estimate.Span
}

func newStage(t episode) *stage {
	s := &stage{episode: t, core: NewCore(t.Options), now: 1, jobs: map[string]*job{}, down: map[string]bool{}, stopAfter: -1}
	for _, n := range t.Nodes {
		s.core.SetNode(n)
	}
	s.core.SetQueues(t.Queues)
	return s
}

func (s *stage) failf(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("decision %d: "+format, append([]any{s.decided}, args...)...)
	}
}

// uids are the UIDs of the jobs, in order.
func (s *stage) uids() []string { return slices.Sorted(maps.Keys(s.jobs)) }

// pick is one of the jobs, by a number; nil if there is none.
func (s *stage) pick(number int) *job {
	if all := s.uids(); len(all) > 0 {
		return s.jobs[all[number%len(all)]]
	}
	return nil
}

// apply lets one thing happen.
func (s *stage) apply(h *happening) {
	switch h.Kind {
	case "arrive":
		r := h.Request
		r.Created = s.now
		s.jobs[r.UID] = &job{req: r, run: h.Run}
		s.core.SetRequest(r)
		s.arrived++
		s.fresh = 0
	case "kill":
		if j := s.pick(h.Number); j != nil {
			s.core.Drop(j.req.UID)
			delete(s.jobs, j.req.UID)
		}
	case "suspend":
		if j := s.pick(h.Number); j != nil && !j.placed {
			j.req.Suspended = !j.req.Suspended
			s.core.SetRequest(j.req)
		}
	case "priority":
		if j := s.pick(h.Number); j != nil {
			j.req.Priority = int32(h.Number % 3)
			s.core.SetRequest(j.req)
		}
	case "node":
		n := s.Nodes[h.Number%len(s.Nodes)]
		s.down[n.Name] = !s.down[n.Name]
		if s.down[n.Name] {
			s.core.DropNode(n.Name)
		} else {
			s.core.SetNode(n)
		}
	}
	s.fresh = 0
}

// next is when something is to be looked at again, after now; 0: never.
func (s *stage) next() Instant {
	var next Instant
	earlier := func(at Instant) {
		if at > s.now && (next == 0 || at < next) {
			next = at
		}
	}
	for _, j := range s.jobs {
		if j.placed && s.stopped() < 0 {
			earlier(j.since.add(j.run - j.req.Ran))
		}
		earlier(j.leaves)
	}
	if s.stopped() < 0 && len(s.Events) > 0 {
		earlier(max(s.now+1, Instant(s.Events[0].At)))
	}
	if len(s.jobs) > 0 {
		earlier(s.core.Wake(s.now))
	}
	return next
}

// stopped is how many decisions ago everything else stopped; -1: it did not.
func (s *stage) stopped() int {
	if s.stopAfter < 0 || s.decided <= s.stopAfter {
		return -1
	}
	return s.decided - s.stopAfter - 1
}

// step goes on to the next moment, and decides. It is false at the end.
func (s *stage) step() bool {
	at := s.next()
	if s.err != nil || at == 0 || s.decided > 600 {
		return false
	}
	s.now = at
	// 1. What ends, and what leaves because it was told to.
	for _, uid := range s.uids() {
		switch j := s.jobs[uid]; {
		case j.placed && s.stopped() < 0 && j.since.add(j.run-j.req.Ran) <= s.now:
			s.core.Drop(uid)
			s.core.Observe(j.req.Evidence, j.run)
			s.learned = append(s.learned, lesson{j.req.Evidence, j.run})
			delete(s.jobs, uid)
		case j.leaves != 0 && j.leaves <= s.now:
			s.requeue(j)
			s.core.Drop(uid)
			s.core.SetRequest(j.req)
		}
	}
	// 2. What happens.
	for s.stopped() < 0 && len(s.Events) > 0 && Instant(s.Events[0].At) <= s.now {
		s.apply(&s.Events[0])
		s.Events = s.Events[1:]
	}
	s.decide()
	return true
}

// requeue lets a job wait again that was evicted.
func (s *stage) requeue(j *job) {
	j.req.Ran += s.now.since(j.since)
	j.req.Evictions++
	j.req.Attempt = j.plan.Attempt
	j.placed, j.leaves = false, 0
}

// decide lets the core decide and does what it says.
func (s *stage) decide() {
	if s.decided%4 == 0 {
		s.same()
	}
	result := s.core.Decide(s.now)
	bytes, err := json.Marshal(result)
	if err != nil {
		s.failf("%v", err)
	}
	s.log = append(append(s.log, bytes...), '\n')
	s.last = result
	for _, e := range result.Evictions {
		j := s.jobs[e.UID]
		switch {
		case j == nil || !j.placed:
			s.failf("%s is evicted and runs not", e.Key)
			return
		case s.now.since(j.since) < s.core.options.MinRun:
			s.failf("%s is evicted after %d s", e.Key, s.now.since(j.since)/estimate.Second)
		}
		s.evictions++
		s.fresh++
		if s.Options.Instantly {
			s.requeue(j)
			if !slices.ContainsFunc(result.Plans, func(p Plan) bool { return p.Key == e.For }) {
				s.failf("%s is evicted for %s, which does not start", e.Key, e.For)
			}
		} else {
			j.leaves = s.now.add(30 * estimate.Second)
		}
	}
	for _, p := range result.Plans {
		j := s.jobs[p.UID]
		if j == nil || j.placed {
			s.failf("%s is planned and does not wait", p.Key)
			return
		}
		j.placed, j.plan, j.since = true, p, s.now
	}
	s.whole()
	s.books()
	s.limits()
	s.needed()
	s.decided++
}

// run plays the episode to its end, or until something is wrong.
func (s *stage) run() error {
	for s.step() {
		bound := 12 * max(1, s.arrived)
		if s.fresh > bound {
			s.failf("%d evictions since anything last happened, of %d jobs in all", s.fresh, s.arrived)
		}
	}
	if s.err == nil && s.stopAfter < 0 {
		s.empty()
	}
	return s.err
}

// newEpisode makes a random episode.
func newEpisode(seed uint64) episode {
	rng := rand.New(rand.NewPCG(seed, 7))
	t := episode{Options: Options{Patience: estimate.Hour, MinRun: 20 * estimate.Minute, Instantly: rng.IntN(2) == 0}}
	models := []string{"A100", "H100"}
	for i := range 1 + rng.IntN(4) {
		n := testNode(fmt.Sprintf("n%d", i), models[rng.IntN(2)], []int{0, 2, 4, 4, 8}[rng.IntN(5)])
		if rng.IntN(2) == 0 {
			n.Ports = nil
		}
		t.Nodes = append(t.Nodes, n)
	}
	if rng.IntN(3) > 0 {
		t.Queues = randomQueues(rng)
	}
	queues := []string{"default", "default", "missing"}
	for _, q := range t.Queues {
		queues = append(queues, q.Name, q.Name, q.Name)
	}
	at := estimate.Span(2)
	for i := range 10 + rng.IntN(40) {
		if rng.IntN(3) > 0 {
			at += estimate.Span(rng.Int64N(int64(estimate.Hour)))
		}
		h := happening{At: at, Kind: "arrive", Number: rng.IntN(100)}
		switch rng.IntN(10) {
		case 0:
			h.Kind = "kill"
		case 1:
			h.Kind = []string{"suspend", "priority", "node"}[rng.IntN(3)]
		default:
			h.Request = randomRequest(rng, i, queues)
			h.Run = estimate.Span(1 + rng.Int64N(int64([]estimate.Span{10 * estimate.Minute, 2 * estimate.Hour, 20 * estimate.Hour}[rng.IntN(3)])))
			if rng.IntN(3) > 0 {
				h.Request.Evidence.Declared = scaledBy(h.Run, []float64{1, 1, 0.2, 5}[rng.IntN(4)])
			}
		}
		t.Events = append(t.Events, h)
	}
	somewhere(seed, t.Nodes, nil)
	places := rand.New(rand.NewPCG(seed, 52))
	for i := range t.Events {
		if places.IntN(2) == 0 {
			anyhow(places, &t.Events[i].Request)
		}
	}
	return t
}

func scaledBy(d estimate.Span, by float64) estimate.Span { return estimate.Span(float64(d) * by) }

func randomRequest(rng *rand.Rand, i int, queues []string) Request {
	models := [][]string{nil, nil, {"A100"}, {"H100", "A100"}}
	b := gang(fmt.Sprintf("g%03d", i))
	b.r.Queue, b.r.User = queues[rng.IntN(len(queues))], []string{"ann", "bob"}[rng.IntN(2)]
	b.r.Evidence.Like = []string{b.r.User}
	b.r.Resumes = rng.IntN(3) > 0
	if rng.IntN(3) == 0 {
		b.r.Priority = int32(rng.IntN(3))
	}
	for k := range 1 + rng.IntN(5)/3 {
		b.role(fmt.Sprintf("r%d", k), int32(1+rng.IntN(3)), int32([]int{0, 1, 1, 2, 4}[rng.IntN(5)]), models[rng.IntN(len(models))]...)
		b.r.Roles[k].Resources.MilliCPU = int64(rng.IntN(6000))
		if rng.IntN(6) == 0 {
			b.r.Roles[k].FixedPorts = []int32{8080}
		}
	}
	if rng.IntN(6) == 0 {
		b.r.Pod, b.r.Roles = true, b.r.Roles[:1]
		b.r.Roles[0].Replicas = 1
	}
	return b.obj()
}

func randomQueues(rng *rand.Rand) []queue.Spec {
	var out []queue.Spec
	for i := range 1 + rng.IntN(4) {
		q := queue.Spec{Name: fmt.Sprintf("q%d", i), Weight: int64(1 + rng.IntN(3)), Guaranteed: queue.Amounts{}, Limit: queue.Amounts{}}
		if i > 0 && rng.IntN(2) == 0 {
			q.Parent = fmt.Sprintf("q%d", rng.IntN(i))
		}
		guaranteed := int64(rng.IntN(4) * placement.Whole)
		if q.Parent == "" && rng.IntN(3) > 0 {
			q.Guaranteed["gpu"] = guaranteed
		}
		if rng.IntN(3) == 0 {
			q.Limit["gpu"] = guaranteed + int64(rng.IntN(8)*placement.Whole)
		}
		if rng.IntN(4) == 0 {
			q.Limit["cpu"] = int64(4000 + rng.IntN(20000))
		}
		if rng.IntN(4) == 0 {
			q.Limit["A100"] = guaranteed + int64(rng.IntN(4)*placement.Whole)
		}
		q.NoBorrowing = rng.IntN(6) == 0
		if rng.IntN(5) == 0 {
			q.LendingLimit = queue.Amounts{"gpu": placement.Whole}
		}
		q.Reclaim = queue.Reclaim(rng.IntN(4))
		out = append(out, q)
	}
	return out
}

// shrunk leaves out of a episode whatever it fails without.
func shrunk(t episode, fails func(episode) error) episode {
	for size := max(1, len(t.Events)/2); size > 0; size /= 2 {
		for i := 0; i < len(t.Events); {
			less := t
			less.Events = slices.Delete(slices.Clone(t.Events), i, min(len(t.Events), i+size))
			if fails(less) != nil {
				t = less
			} else {
				i += size
			}
		}
	}
	for i := 0; i < len(t.Nodes) && len(t.Nodes) > 1; {
		less := t
		less.Nodes = slices.Delete(slices.Clone(t.Nodes), i, i+1)
		if fails(less) != nil {
			t = less
		} else {
			i++
		}
	}
	for i := 0; i < len(t.Queues); {
		less := t
		less.Queues = slices.Delete(slices.Clone(t.Queues), i, i+1)
		if fails(less) != nil {
			t = less
		} else {
			i++
		}
	}
	return t
}

// words write a episode down, for whoever has to mend what it shows.
func (t episode) words() string {
	out := fmt.Sprintf("instantly: %v\n", t.Options.Instantly)
	for _, n := range t.Nodes {
		model := ""
		if len(n.Devices) > 0 {
			model = n.Devices[0].Model
		}
		out += fmt.Sprintf("node %s: %d %s, ports %v\n", n.Name, len(n.Devices), model, n.Ports != nil)
	}
	for _, q := range t.Queues {
		out += fmt.Sprintf("queue %+v\n", q)
	}
	for _, h := range t.Events {
		out += fmt.Sprintf("%6d s: %s %d", h.At/estimate.Second, h.Kind, h.Number)
		if h.Kind == "arrive" {
			r := h.Request
			out += fmt.Sprintf(" %s queue %s user %s priority %d resumes %v pod %v runs %d s, says %d s:", r.Name, r.Queue, r.User, r.Priority, r.Resumes, r.Pod,
				h.Run/estimate.Second, r.Evidence.Declared/estimate.Second)
			for _, role := range r.Roles {
				out += fmt.Sprintf(" %d x (%d GPU %v, %d mCPU, ports %v)", role.Replicas, role.GPUs, role.Models, role.Resources.MilliCPU, role.FixedPorts)
			}
		}
		out += "\n"
	}
	return out
}

// snapshot is what a watch would show of the stage.
func (s *stage) snapshot() Snapshot {
	snap := Snapshot{Now: s.now, Queues: s.Queues}
	for _, n := range s.Nodes {
		if !s.down[n.Name] {
			snap.Nodes = append(snap.Nodes, n)
		}
	}
	for _, uid := range s.uids() {
		j := s.jobs[uid]
		snap.Requests = append(snap.Requests, j.req)
		if !j.placed {
			continue
		}
		p := Placement{Gang: j.req.Key, UID: uid, Attempt: j.plan.Attempt, Created: j.since}
		for _, m := range j.plan.Members {
			p.Members = append(p.Members, PlacedMember{Assignment: m, Resources: j.role(m.Role).Resources})
		}
		snap.Placements = append(snap.Placements, p)
	}
	return snap
}

func (j *job) role(name string) *Role {
	i := slices.IndexFunc(j.req.Roles, func(r Role) bool { return r.Name == name })
	return &j.req.Roles[i]
}
