package simulate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// script is a policy that does what a test says, and writes down what it is
// told.
type script struct {
	log    []string
	decide func(now Micros, known map[int]*Job) Decision
	known  map[int]*Job
}

func (s *script) Arrive(now Micros, job *Job, ran Micros) {
	if s.known == nil {
		s.known = map[int]*Job{}
	}
	s.known[job.ID] = job
	s.log = append(s.log, fmt.Sprintf("%v arrive %d ran %v", now, job.ID, ran))
}

func (s *script) Finish(now Micros, job *Job, ran Micros) {
	s.log = append(s.log, fmt.Sprintf("%v finish %d ran %v", now, job.ID, ran))
}

func (s *script) Decide(now Micros) Decision {
	s.log = append(s.log, fmt.Sprintf("%v decide", now))
	return s.decide(now, s.known)
}

// list numbers jobs.
func list(jobs ...Job) []Job {
	for i := range jobs {
		jobs[i].ID = i
	}
	return jobs
}

// job makes a job from seconds.
func job(submit, run Micros, gpus int) Job {
	return Job{Submit: submit * Second, Run: run * Second, GPUs: gpus}
}

func on(job *Job, shares ...Share) Start { return Start{Job: job, Nodes: shares} }

var twoByFour = ClusterSpec{Nodes: 2, GPUsPerNode: 4, WholeNodes: true}

func TestReplayTellsEventsInOrder(t *testing.T) {
	jobs := list(job(0, 10, 4), job(10, 5, 1), job(10, 5, 1))
	policy := &script{}
	policy.decide = func(now Micros, known map[int]*Job) Decision {
		switch now {
		case 0:
			return Decision{Start: []Start{on(known[0], Share{0, 4})}, Wake: 10 * Second}
		case 10 * Second:
			return Decision{Start: []Start{on(known[2], Share{0, 1}), on(known[1], Share{1, 1})}}
		}
		return Decision{}
	}
	outcome, err := Replay(t.Context(), Config{Cluster: twoByFour}, jobs, policy)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"0s arrive 0 ran 0s", "0s decide",
		"10s finish 0 ran 10s", "10s arrive 1 ran 0s", "10s arrive 2 ran 0s", "10s decide",
		"15s finish 1 ran 5s", "15s finish 2 ran 5s", "15s decide",
	}
	if diff := cmp.Diff(want, policy.log); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Micros{10 * Second, 15 * Second, 15 * Second}, outcome.Finish); diff != "" {
		t.Errorf("ends (-want +got):\n%s", diff)
	}
	// The window is 10 s, and 4 GPUs were held for all of it.
	if got, want := outcome.UsedGPUTime, float64(40*Second); got != want {
		t.Errorf("GPU time used is %v, want %v", got, want)
	}
	for id, job := range policy.known {
		if job.Run != 0 {
			t.Errorf("the policy was shown the run time of job %d", id)
		}
	}
}

func TestReplayPreemption(t *testing.T) {
	// Started at 0, preempted at 30 with 70 s left; back at 40 it restarts for
	// 60 s, is preempted 20 s into that, and has 40 s of the first restart and
	// 60 s of the second before its 70 s.
	jobs := list(job(0, 100, 2), job(300, 1, 1))
	policy := &script{}
	policy.decide = func(now Micros, known map[int]*Job) Decision {
		first := known[0]
		switch now {
		case 0:
			return Decision{Start: []Start{on(first, Share{0, 2})}, Wake: 30 * Second}
		case 30 * Second:
			if len(policy.log) > 4 {
				return Decision{Wake: 40 * Second} // asked again, now that it waits
			}
			return Decision{Preempt: []*Job{first}}
		case 40 * Second:
			return Decision{Start: []Start{on(first, Share{1, 2})}, Wake: 60 * Second}
		case 60 * Second:
			return Decision{Preempt: []*Job{first}, Start: []Start{on(first, Share{0, 2})}}
		case 300 * Second:
			return Decision{Start: []Start{on(known[1], Share{0, 1})}}
		}
		return Decision{}
	}
	outcome, err := Replay(t.Context(), Config{Cluster: twoByFour, Restart: 60 * Second}, jobs, policy)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"0s arrive 0 ran 0s", "0s decide", "30s decide",
		"30s arrive 0 ran 30s", "30s decide", "40s decide",
		"1m0s decide", // moved: nothing arrives
		"3m50s finish 0 ran 1m40s", "3m50s decide",
		"5m0s arrive 1 ran 0s", "5m0s decide", "5m1s finish 1 ran 1s", "5m1s decide",
	}
	if diff := cmp.Diff(want, policy.log); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got := outcome.Finish[0]; got != 230*Second {
		t.Errorf("job 0 ended at %v, want 3m50s", got)
	}
	if outcome.Preemptions != 2 || outcome.Starts[0] != 3 || outcome.FirstStart[0] != 0 {
		t.Errorf("%d preemptions, %d starts, first at %v", outcome.Preemptions, outcome.Starts[0], outcome.FirstStart[0])
	}
	if got, want := outcome.LostGPUTime, float64(2*2*60*Second); got != want {
		t.Errorf("lost %v, want %v", got, want)
	}
	if got, want := outcome.UsedGPUTime, float64(2*(30+190)*Second); got != want {
		t.Errorf("used %v, want %v", got, want)
	}
}

func TestReplayRefusesWhatCannotBe(t *testing.T) {
	other := Job{ID: 0}
	for name, test := range map[string]struct {
		decide func(now Micros, known map[int]*Job) Decision
		want   string
	}{
		"too many on a node": {func(_ Micros, known map[int]*Job) Decision {
			return Decision{Start: []Start{on(known[0], Share{0, 3}), on(known[1], Share{0, 2})}}
		}, "at 0s, job 1: started with 2 GPUs on node 0, where 1 are free"},
		"part of a gang": {func(_ Micros, known map[int]*Job) Decision {
			return Decision{Start: []Start{on(known[0], Share{0, 2})}}
		}, "at 0s, job 0: its 3 GPUs are started as 2 GPUs on 1 nodes: here they are 3 on each of 1"},
		"a gang torn apart": {func(_ Micros, known map[int]*Job) Decision {
			return Decision{Start: []Start{on(known[0], Share{0, 2}, Share{1, 1})}}
		}, "at 0s, job 0: its 3 GPUs are started as 3 GPUs on 2 nodes: here they are 3 on each of 1"},
		"a node that is not there": {func(_ Micros, known map[int]*Job) Decision {
			return Decision{Start: []Start{on(known[0], Share{2, 3})}}
		}, "at 0s, job 0: started on node 2: there are nodes 0 to 1"},
		"a node twice": {func(_ Micros, known map[int]*Job) Decision {
			return Decision{Start: []Start{on(known[0], Share{0, 2}, Share{0, 1})}}
		}, "at 0s, job 0: started on node 0 twice"},
		"fewer than no GPUs": {func(_ Micros, known map[int]*Job) Decision {
			return Decision{Start: []Start{on(known[0], Share{0, 4}, Share{1, -1})}}
		}, "at 0s, job 0: started with -1 GPUs on node 1"},
		"started twice": {func(_ Micros, known map[int]*Job) Decision {
			return Decision{Start: []Start{on(known[1], Share{0, 2}), on(known[1], Share{1, 2})}}
		}, "at 0s, job 1: started, but it is not waiting"},
		"preempted while waiting": {func(_ Micros, known map[int]*Job) Decision {
			return Decision{Preempt: []*Job{known[1]}}
		}, "at 0s, job 1: preempted, but it is not running"},
		"a stranger":        {func(Micros, map[int]*Job) Decision { return Decision{Start: []Start{on(&other, Share{0, 3})}} }, "at 0s, the policy decides on a job that is none of this run"},
		"nobody":            {func(Micros, map[int]*Job) Decision { return Decision{Preempt: []*Job{nil}} }, "at 0s, the policy decides on a job that is none of this run"},
		"woken in the past": {func(now Micros, _ map[int]*Job) Decision { return Decision{Wake: now - 1} }, "at 0s, the policy asks to be woken at -1µs, which is past"},
		"left waiting":      {func(Micros, map[int]*Job) Decision { return Decision{} }, "at 0s, job 0: waits, and nothing runs, arrives or wakes the policy any more"},
		"whole nodes": {func(_ Micros, known map[int]*Job) Decision {
			return Decision{Start: []Start{on(known[2], Share{0, 4}, Share{1, 2})}}
		}, "at 0s, job 2: its 6 GPUs are started as 6 GPUs on 2 nodes: here they are 4 on each of 2"},
	} {
		t.Run(name, func(t *testing.T) {
			jobs := list(job(0, 5, 3), job(0, 5, 2), job(0, 5, 6))
			_, err := Replay(t.Context(), Config{Cluster: twoByFour}, jobs, &script{decide: test.decide})
			if err == nil || err.Error() != test.want {
				t.Errorf("error is\n%v, want\n%v", err, test.want)
			}
		})
	}
}

func TestReplayRefusesRestless(t *testing.T) {
	// Job 1 ends in the instant in which it starts, so the policy is asked
	// again; were it to stop what it has just started, it could go on for good.
	jobs := list(job(0, 5, 1), job(0, 0, 1))
	rounds := 0
	_, err := Replay(t.Context(), Config{Cluster: twoByFour}, jobs, &script{decide: func(_ Micros, known map[int]*Job) Decision {
		if rounds++; rounds == 1 {
			return Decision{Start: []Start{on(known[0], Share{0, 1}), on(known[1], Share{0, 1})}}
		}
		return Decision{Preempt: []*Job{known[0]}}
	}})
	want := &Violation{Job: 0, What: "preempted in the instant in which it was started"}
	violation, ok := errors.AsType[*Violation](err)
	if !ok {
		t.Fatalf("error is %v, want a violation", err)
	}
	if diff := cmp.Diff(want, violation); diff != "" {
		t.Errorf("violation (-want +got):\n%s", diff)
	}
}

func TestReplayRefusesJobs(t *testing.T) {
	far := job(0, 1, 1)
	far.Submit, far.Run = Never-2, 100*Second
	for name, test := range map[string]struct {
		jobs    []Job
		cluster ClusterSpec
		want    string
	}{
		"numbers":                {[]Job{{ID: 1, GPUs: 1}}, twoByFour, "job 0 is numbered 1"},
		"order":                  {list(job(5, 1, 1), job(4, 1, 1)), twoByFour, "job 1 is submitted at 4s, before job 0 at 5s"},
		"negative":               {list(job(0, -1, 1)), twoByFour, "none may be negative"},
		"no GPUs":                {list(job(0, 1, 0)), twoByFour, "job 0 asks for 0 GPUs"},
		"too large, from a file": {[]Job{{Run: 1, GPUs: 9, Row: 7}}, twoByFour, "the job in row 7 asks for 9 GPUs"},
		"too large":              {list(job(0, 1, 9)), twoByFour, "job 0 asks for 9 GPUs: it can never run on 2 nodes of 4 GPUs"},
		"no nodes":               {list(job(0, 1, 1)), ClusterSpec{GPUsPerNode: 8}, "a cluster of 0 nodes"},
		"overflow":               {list(far), twoByFour, "beyond what time can count"},
	} {
		t.Run(name, func(t *testing.T) {
			policy, err := newFIFO(twoByFour, Options{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = Replay(t.Context(), Config{Cluster: test.cluster}, test.jobs, policy)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestReplayStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	policy, _ := newFIFO(twoByFour, Options{})
	if _, err := Replay(ctx, Config{Cluster: twoByFour}, list(job(0, 1, 1)), policy); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want that of the context", err)
	}
}

func TestReplayOfNothing(t *testing.T) {
	policy, _ := newFIFO(twoByFour, Options{})
	outcome, err := Replay(t.Context(), Config{Cluster: twoByFour}, nil, policy)
	if err != nil {
		t.Fatal(err)
	}
	if report := Measure(twoByFour, outcome); report.Jobs != 0 || report.MeanJCT != 0 {
		t.Errorf("report of nothing: %+v", report)
	}
}

func TestTimes(t *testing.T) {
	var heap times
	for _, d := range []due{{5, 1}, {3, 2}, {5, 0}, {4, 3}, {9, 4}, {1, 5}} {
		heap.add(d.when, d.job)
	}
	heap.remove(3)
	heap.remove(3)
	heap.remove(77)
	var got []int
	for {
		id, ok := heap.pop(5)
		if !ok {
			break
		}
		got = append(got, id)
	}
	if diff := cmp.Diff([]int{5, 2, 0, 1}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if heap.first() != 9 {
		t.Errorf("first is %v, want what is not due yet", heap.first())
	}
}
