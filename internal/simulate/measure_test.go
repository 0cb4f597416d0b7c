package simulate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMeasure(t *testing.T) {
	// One node of 4: a 4-GPU gang runs 0-2 h, a 1-GPU job submitted at 1 h
	// waits until 2 h and ends at 5 h, the last comes at 4 h and runs at once.
	cluster := ClusterSpec{Nodes: 1, GPUsPerNode: 4, WholeNodes: true}
	jobs := list(hours(0, 2, 4), hours(1, 3, 1), hours(4, 1, 2))
	report, err := Run(t.Context(), Setup{Policy: "fifo", Cluster: cluster}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	all := Figures{
		GPUs: "all", Jobs: 3, Starts: 3,
		MeanJCT: 2.333333, P50JCT: 2, P90JCT: 3.6, P99JCT: 3.96,
		MeanWait: 0.333333, P50Wait: 0, P90Wait: 0.8, P99Wait: 0.98,
		MeanIdle: 0.333333, P99Idle: 0.98, MeanSlowdown: 1.111111,
	}
	if diff := cmp.Diff(all, report.Figures); diff != "" {
		t.Errorf("all jobs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Figures{
		GPUs: "1", Jobs: 1, Starts: 1, MeanJCT: 4, P50JCT: 4, P90JCT: 4, P99JCT: 4,
		MeanWait: 1, P50Wait: 1, P90Wait: 1, P99Wait: 1, MeanIdle: 1, P99Idle: 1, MeanSlowdown: 1.333333,
	}, report.Class("1")); diff != "" {
		t.Errorf("jobs of one GPU (-want +got):\n%s", diff)
	}
	// In the 4 h from first to last submission: 2 h of 4 and 2 h of 1.
	if report.Allocation != 62.5 {
		t.Errorf("allocation is %v%%, want 62.5", report.Allocation)
	}
	if report.Makespan != 5 {
		t.Errorf("makespan is %v h, want 5", report.Makespan)
	}
	// 2*4 + 3*1 + 1*2 GPU-hours in 4 h of 4 GPUs.
	if load := Load(cluster, jobs); load != 0.8125 {
		t.Errorf("load is %v, want 0.8125", load)
	}
}

func TestSizeClasses(t *testing.T) {
	cluster := ClusterSpec{Nodes: 4, GPUsPerNode: 8, WholeNodes: true}
	report, err := Run(t.Context(), Setup{Policy: "greedy-bestfit", Cluster: cluster},
		list(hours(0, 1, 1), hours(0, 1, 2), hours(0, 1, 4), hours(0, 1, 6), hours(0, 1, 8), hours(0, 1, 9), hours(5, 1, 32)))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, class := range report.Classes {
		got[class.GPUs] = class.Jobs
	}
	want := map[string]int{"1": 1, "2-4": 2, "5-7": 1, "8": 1, ">8": 2, ">=8": 3, "all": 7}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("jobs by class (-want +got):\n%s", diff)
	}
}

func TestMeasurePreemption(t *testing.T) {
	// Job 0 runs 0-2 h, is preempted for an hour, and pays a minute.
	jobs := list(hours(0, 3, 4), Job{Submit: 2 * Hour, Run: Hour, GPUs: 4})
	cluster := ClusterSpec{Nodes: 1, GPUsPerNode: 4, WholeNodes: true}
	report, err := Run(t.Context(), Setup{Policy: "las", Cluster: cluster, Restart: RestartCost}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	if report.Preemptions != 1 || report.LostHours != 0.066667 || report.LostPercent != 0.414938 {
		t.Errorf("%d preemptions, %v GPU-hours, %v%% lost", report.Preemptions, report.LostHours, report.LostPercent)
	}
	if report.P99Wait != 0 || report.MeanIdle != 0.508333 || report.MeanJCT != 2.508333 || report.Starts != 3 {
		t.Errorf("waits %v h, idles %v h, JCT %v h, %d starts", report.P99Wait, report.MeanIdle, report.MeanJCT, report.Starts)
	}
}

func TestFairness(t *testing.T) {
	// Two nodes, two queues: one node each. Together: a's two jobs take both
	// nodes for 2 h, and b's job waits for them. Alone, a's run one after the
	// other (2 h and 4 h), and b's at once (1 h).
	cluster := ClusterSpec{Nodes: 2, GPUsPerNode: 4, WholeNodes: true}
	jobs := list(hours(0, 2, 4), hours(0, 2, 4), hours(0, 1, 4))
	jobs[0].Queue, jobs[1].Queue, jobs[2].Queue = "a", "a", "b"
	report, err := Run(t.Context(), Setup{Policy: "fifo", Cluster: cluster, Fairness: true}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	want := &Fairness{Max: 3, P95: 2.883333, Nodes: 1, Queues: []QueueFairness{
		{Queue: "a", Jobs: 2, Shared: 2, Alone: 3, Rho: 0.666667},
		{Queue: "b", Jobs: 1, Shared: 3, Alone: 1, Rho: 3},
	}}
	if diff := cmp.Diff(want, report.Fairness); diff != "" {
		t.Errorf("fairness (-want +got):\n%s", diff)
	}
	// A queue with a gang that needs more than its part gets what that needs.
	jobs[2].GPUs = 8
	report, err = Run(t.Context(), Setup{Policy: "fifo", Cluster: cluster, Fairness: true}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	if got := report.Fairness.Queues[1].Alone; got != 1 {
		t.Errorf("alone the large gang took %v h, want 1", got)
	}
}

func TestDeclare(t *testing.T) {
	runs := []Micros{0, 1, Hour, Hour + 1, 4 * Hour, 17 * Hour, 100 * Hour}
	want := map[Limits][]Micros{
		NoLimits:     make([]Micros, len(runs)),
		ExactLimits:  {1, 1, Hour, Hour + 1, 4 * Hour, 17 * Hour, 100 * Hour},
		CoarseLimits: {Hour, Hour, Hour, 4 * Hour, 4 * Hour, 64 * Hour, 256 * Hour},
	}
	jobs := make([]Job, len(runs))
	limitsOf := func(limits Limits, seed uint64) []Micros {
		t.Helper()
		for i, run := range runs {
			jobs[i] = Job{ID: i, Run: run, GPUs: 1}
		}
		if err := Declare(jobs, limits, seed); err != nil {
			t.Fatal(err)
		}
		var got []Micros
		for _, job := range jobs {
			got = append(got, job.Limit)
		}
		return got
	}
	for limits, want := range want {
		if diff := cmp.Diff(want, limitsOf(limits, 1)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", limits, diff)
		}
	}
	low, high := 0, 0
	for seed := range uint64(20) {
		for i, got := range limitsOf(WrongLimits, seed) {
			switch got {
			case want[CoarseLimits][i] / 5:
				low++
			case want[CoarseLimits][i] * 5:
				high++
			default:
				t.Fatalf("wrong limit %v of a coarse limit %v", got, want[CoarseLimits][i])
			}
		}
	}
	if low < 40 || high < 40 {
		t.Errorf("of 140 wrong limits %d are too low and %d too high", low, high)
	}
	if diff := cmp.Diff(limitsOf(WrongLimits, 7), limitsOf(WrongLimits, 7)); diff != "" {
		t.Errorf("the same seed gave other limits:\n%s", diff)
	}
	if Coarse(Never-1) != Never-1 {
		t.Errorf("the coarse limit of the longest run is %v", Coarse(Never-1))
	}
	if err := Declare(jobs, "vague", 1); err == nil {
		t.Error("limits that do not exist were declared")
	}
}
