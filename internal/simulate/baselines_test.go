package simulate

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// limited makes a job that declares how long it runs, in seconds.
func limited(submit, run, limit Micros, gpus int) Job {
	made := job(submit, run, gpus)
	made.Limit = limit * Second
	return made
}

// recorder notes what a policy decides.
type recorder struct {
	Policy
	log []string
	// after is called with every decision.
	after func(now Micros, decision Decision)
}

func (r *recorder) Decide(now Micros) Decision {
	decision := r.Policy.Decide(now)
	for _, job := range decision.Preempt {
		r.log = append(r.log, fmt.Sprintf("%v preempt %d", now, job.ID))
	}
	for _, start := range decision.Start {
		line := fmt.Sprintf("%v start %d on", now, start.Job.ID)
		for _, share := range start.Nodes {
			line += fmt.Sprintf(" %d:%d", share.Node, share.GPUs)
		}
		r.log = append(r.log, line)
	}
	if r.after != nil {
		r.after(now, decision)
	}
	return decision
}

func TestBaselines(t *testing.T) {
	for name, test := range map[string]struct {
		policy string
		jobs   []Job
		want   []string
	}{
		"fifo lets nobody pass": {
			"fifo", list(job(0, 10, 3), job(1, 10, 3), job(2, 10, 4), job(3, 1, 1)),
			[]string{"0s start 0 on 0:3", "1s start 1 on 1:3", "10s start 2 on 0:4", "10s start 3 on 1:1"},
		},
		"greedy fills the fullest node": {
			"greedy-bestfit", list(job(0, 10, 1), job(1, 10, 2), job(2, 10, 4), job(3, 10, 2), job(4, 10, 1)),
			[]string{"0s start 0 on 0:1", "1s start 1 on 0:2", "2s start 2 on 1:4", "4s start 4 on 0:1", "11s start 3 on 0:2"},
		},
		"greedy spreads": {
			"greedy-spread", list(job(0, 10, 1), job(1, 10, 2), job(2, 10, 4), job(3, 10, 2), job(4, 10, 1)),
			[]string{"0s start 0 on 0:1", "1s start 1 on 1:2", "3s start 3 on 0:2", "4s start 4 on 1:1", "13s start 2 on 0:4"},
		},
		"a large gang takes whole nodes": {
			"greedy-bestfit", list(job(0, 10, 1), job(1, 5, 6), job(2, 3, 3)),
			[]string{"0s start 0 on 0:1", "2s start 2 on 0:3", "10s start 1 on 0:4 1:4"},
		},
		"easy: the short pass, the long wait": {
			// Node 0 is free at 10, and 2 of its GPUs are idle until then; 3
			// would hold them longer, 4 not. Node 1 is full for long.
			"easy", list(limited(0, 10, 10, 2), limited(0, 90, 90, 4), limited(1, 10, 10, 4), limited(2, 20, 20, 2), limited(3, 7, 7, 1), limited(4, 6, 6, 1)),
			[]string{"0s start 0 on 0:2", "0s start 1 on 1:4", "3s start 4 on 0:1", "4s start 5 on 0:1", "10s start 2 on 0:4", "20s start 3 on 0:2"},
		},
		"easy: beside the reserved job": {
			// Job 2 will hold 3 of node 0 at 10; one more is free then.
			"easy", list(limited(0, 10, 10, 2), limited(0, 90, 90, 4), limited(1, 10, 10, 3), limited(2, 50, 50, 1), limited(3, 50, 50, 1)),
			[]string{"0s start 0 on 0:2", "0s start 1 on 1:4", "2s start 3 on 0:1", "10s start 2 on 0:3", "20s start 4 on 0:1"},
		},
		"easy: on other nodes": {
			"easy", list(limited(0, 10, 10, 3), limited(0, 90, 90, 3), limited(1, 10, 10, 4), limited(2, 50, 50, 1), limited(3, 7, 7, 1)),
			[]string{"0s start 0 on 0:3", "0s start 1 on 1:3", "2s start 3 on 1:1", "3s start 4 on 0:1", "10s start 2 on 0:4"},
		},
		"easy: longer than declared": {
			// At 3 job 0 is overdue and expected until 4, then until 8: the
			// reservation moves, and job 2 fits before it only at 4.
			"easy", list(limited(0, 9, 2, 3), limited(0, 90, 90, 4), limited(1, 1, 1, 4), limited(3, 3, 3, 1), limited(4, 1, 1, 2)),
			[]string{"0s start 0 on 0:3", "0s start 1 on 1:4", "4s start 3 on 0:1", "9s start 2 on 0:4", "10s start 4 on 0:2"},
		},
		"shortest first": {
			"sjf-oracle", list(job(0, 10, 4), job(0, 10, 4), job(1, 9, 4), job(2, 3, 4), job(3, 5, 4)),
			[]string{"0s start 0 on 0:4", "0s start 1 on 1:4", "10s start 3 on 0:4", "10s start 4 on 1:4", "13s start 2 on 0:4"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, test.policy, test.jobs, test.want)
		})
	}
}

// check replays the jobs on two nodes of four and compares the decisions.
func check(t *testing.T, policy string, jobs []Job, want []string) {
	t.Helper()
	made, err := NewPolicy(policy, twoByFour, Options{Jobs: jobs, Restart: RestartCost})
	if err != nil {
		t.Fatal(err)
	}
	watched := &recorder{Policy: made}
	if _, err := Replay(t.Context(), Config{Cluster: twoByFour, Restart: RestartCost}, jobs, watched); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, watched.log); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

// hours makes a job from hours.
func hours(submit, run Micros, gpus int) Job {
	return Job{Submit: submit * Hour, Run: run * Hour, GPUs: gpus}
}

func TestLeastAttainedService(t *testing.T) {
	for name, test := range map[string]struct {
		jobs []Job
		want []string
	}{
		"the new preempts what has attained more": {
			// Job 0 has attained 8 GPU-hours at 2, job 1 a half.
			list(hours(0, 3, 4), Job{Submit: Hour + 30*Minute, Run: 2 * Hour, GPUs: 1}, hours(2, 1, 4)),
			[]string{
				"0s start 0 on 0:4", "1h30m0s start 1 on 1:1",
				"2h0m0s preempt 0", "2h0m0s start 2 on 0:4", "3h0m0s start 0 on 0:4",
			},
		},
		"its own queue it leaves alone, until that has fallen": {
			// At 1m nobody has attained an hour; a quarter of an hour on 4 GPUs
			// is one.
			list(hours(0, 3, 4), hours(0, 3, 4), Job{Submit: Minute, Run: Minute, GPUs: 2}),
			[]string{
				"0s start 0 on 0:4", "0s start 1 on 1:4",
				"15m0s preempt 0", "15m0s start 2 on 0:2", "16m0s start 0 on 0:4",
			},
		},
		"no more victims than needed": {
			// The youngest of the last queue goes first; job 1 is not needed.
			list(hours(0, 30, 1), hours(0, 30, 1), hours(0, 30, 2), hours(0, 30, 4), hours(20, 1, 2)),
			[]string{
				"0s start 0 on 0:1", "0s start 1 on 0:1", "0s start 2 on 0:2", "0s start 3 on 1:4",
				"20h0m0s preempt 2", "20h0m0s start 4 on 0:2", "21h0m0s start 2 on 0:2",
			},
		},
		"whole nodes for a large gang": {
			list(hours(0, 30, 1), hours(0, 30, 4), hours(20, 1, 8)),
			[]string{
				"0s start 0 on 0:1", "0s start 1 on 1:4",
				"20h0m0s preempt 0", "20h0m0s preempt 1", "20h0m0s start 2 on 0:4 1:4",
				"21h0m0s start 0 on 0:1", "21h0m0s start 1 on 1:4",
			},
		},
	} {
		t.Run(name, func(t *testing.T) { check(t, "las", test.jobs, test.want) })
	}
}

// workload is a small random workload that keeps the cluster busy.
func workload(seed uint64, cluster ClusterSpec) []Job {
	random := rand.New(rand.NewPCG(seed, 1))
	jobs := make([]Job, 40+random.IntN(100))
	now := Micros(0)
	for i := range jobs {
		if random.IntN(3) > 0 {
			now += Micros(random.IntN(900)) * Second
		}
		gpus := 1 << random.IntN(3)
		if random.IntN(6) == 0 {
			gpus = 1 + random.IntN(cluster.GPUs())
		}
		run := Micros(random.IntN(7200)) * Second
		if random.IntN(10) == 0 {
			run *= 10
		}
		jobs[i] = Job{ID: i, Submit: now, Run: run, GPUs: gpus, Queue: fmt.Sprint(random.IntN(3))}
	}
	return jobs
}

func randomCluster(seed uint64) ClusterSpec {
	random := rand.New(rand.NewPCG(seed, 2))
	return ClusterSpec{Nodes: 1 + random.IntN(6), GPUsPerNode: 1 + random.IntN(8), WholeNodes: random.IntN(2) == 0}
}

// TestEveryPolicyKeepsTheBooks relies on the loop, which refuses what exceeds
// a node or tears a gang apart.
func TestEveryPolicyKeepsTheBooks(t *testing.T) {
	for _, name := range Policies() {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(60) {
				cluster := randomCluster(seed)
				// The production scheduler is told of a gang's members, and a
				// trace says of them only how many GPUs they have in all.
				cluster.WholeNodes = cluster.WholeNodes || name == "muster"
				jobs := feasible(workload(seed, cluster), cluster)
				limits := AllLimits()[seed%4]
				if err := Declare(jobs, limits, seed); err != nil {
					t.Fatal(err)
				}
				hashes := [2]string{}
				for i := range hashes {
					report, err := Run(t.Context(), Setup{Policy: name, Cluster: cluster, Restart: RestartCost, Seed: seed}, jobs)
					if err != nil {
						t.Fatalf("seed %d, %+v, limits %s: %v", seed, cluster, limits, err)
					}
					hashes[i] = report.Hash
				}
				if hashes[0] != hashes[1] {
					t.Fatalf("seed %d: twice the same gave two schedules", seed)
				}
			}
		})
	}
}

// feasible drops what the cluster can never hold and numbers the rest.
func feasible(jobs []Job, cluster ClusterSpec) []Job {
	kept := jobs[:0]
	for _, job := range jobs {
		if cluster.Fits(job.GPUs) {
			job.ID = len(kept)
			kept = append(kept, job)
		}
	}
	return kept
}

// world is an account of who waits and what is free, kept beside a policy.
type world struct {
	Policy
	t       *testing.T
	cluster ClusterSpec
	free    []int
	waiting []*Job
	held    map[int]Start
	begun   map[int]Micros
	look    func(w *world, now Micros)
}

func watch(t *testing.T, policy Policy, cluster ClusterSpec, look func(*world, Micros)) *world {
	w := &world{Policy: policy, t: t, cluster: cluster, look: look, held: map[int]Start{}, begun: map[int]Micros{}}
	for range cluster.Nodes {
		w.free = append(w.free, cluster.GPUsPerNode)
	}
	return w
}

func (w *world) Arrive(now Micros, job *Job, ran Micros) {
	w.waiting = append(w.waiting, job)
	w.Policy.Arrive(now, job, ran)
}

func (w *world) Finish(now Micros, job *Job, ran Micros) {
	for _, share := range w.held[job.ID].Nodes {
		w.free[share.Node] += share.GPUs
	}
	delete(w.held, job.ID)
	w.Policy.Finish(now, job, ran)
}

func (w *world) Decide(now Micros) Decision {
	decision := w.Policy.Decide(now)
	for _, start := range decision.Start {
		w.held[start.Job.ID], w.begun[start.Job.ID] = start, now
		for _, share := range start.Nodes {
			w.free[share.Node] -= share.GPUs
		}
		for i, job := range w.waiting {
			if job == start.Job {
				w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
				break
			}
		}
	}
	w.look(w, now)
	return decision
}

// fits reports whether a gang fits into so much free room.
func fits(cluster ClusterSpec, free []int, gpus int) bool {
	nodes, each := cluster.Shape(gpus)
	for _, f := range free {
		if f >= each {
			nodes--
		}
	}
	return nodes <= 0
}

func TestGreedyLeavesNothingThatFits(t *testing.T) {
	for _, name := range []string{"greedy-spread", "greedy-bestfit", "sjf-oracle"} {
		for seed := range uint64(60) {
			cluster := randomCluster(seed)
			cluster.WholeNodes = true
			jobs := feasible(workload(seed, cluster), cluster)
			policy, err := NewPolicy(name, cluster, Options{Jobs: jobs})
			if err != nil {
				t.Fatal(err)
			}
			watched := watch(t, policy, cluster, func(w *world, now Micros) {
				for _, job := range w.waiting {
					if fits(cluster, w.free, job.GPUs) {
						t.Fatalf("%s, seed %d: at %v job %d waits with %d GPUs, free are %v", name, seed, now, job.ID, job.GPUs, w.free)
					}
				}
			})
			if _, err := Replay(t.Context(), Config{Cluster: cluster}, jobs, watched); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestEasyNeverDelaysTheFirst: once a job is the oldest that waits, it starts
// no later than it would if nothing else were started any more.
func TestEasyNeverDelaysTheFirst(t *testing.T) {
	for seed := range uint64(200) {
		cluster := randomCluster(seed)
		cluster.WholeNodes = true
		jobs := feasible(workload(seed, cluster), cluster)
		if err := Declare(jobs, ExactLimits, 0); err != nil {
			t.Fatal(err)
		}
		policy, _ := newEASY(cluster, Options{})
		promised := map[int]Micros{}
		watched := watch(t, policy, cluster, func(w *world, now Micros) {
			if len(w.waiting) == 0 {
				return
			}
			first := w.waiting[0]
			if _, known := promised[first.ID]; !known {
				promised[first.ID] = w.soonest(now, jobs, first.GPUs)
			}
		})
		outcome, err := Replay(t.Context(), Config{Cluster: cluster}, jobs, watched)
		if err != nil {
			t.Fatal(err)
		}
		for id, at := range promised {
			if outcome.FirstStart[id] > at {
				t.Errorf("seed %d: job %d was first in the queue and could have started at %v, but did at %v", seed, id, at, outcome.FirstStart[id])
			}
		}
	}
}

// soonest is when a gang would fit if nothing were started meanwhile.
func (w *world) soonest(now Micros, jobs []Job, gpus int) Micros {
	free := append([]int(nil), w.free...)
	var ends times
	for id := range jobs {
		if _, running := w.held[id]; running {
			ends.add(w.begun[id]+jobs[id].Run, id)
		}
	}
	for !fits(w.cluster, free, gpus) {
		now = ends.first()
		id, ok := ends.pop(now)
		if !ok {
			w.t.Fatal("a gang that never fits")
		}
		for _, share := range w.held[id].Nodes {
			free[share.Node] += share.GPUs
		}
	}
	return now
}

func TestPolicyByName(t *testing.T) {
	_, err := NewPolicy("lottery", twoByFour, Options{})
	if err == nil || err.Error() == "" {
		t.Fatal("a policy that does not exist was made")
	}
	for _, name := range Policies() {
		if About(name) == "" {
			t.Errorf("nothing is said about %s", name)
		}
	}
}
