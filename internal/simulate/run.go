package simulate

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// Setup is what is to be simulated.
type Setup struct {
	// Policy is its name in the registry.
	Policy string
	// Cluster is what the jobs run on.
	Cluster ClusterSpec
	// Restart is what a preemption adds to the rest of a job's run.
	Restart Micros
	// Seed is for policies that make random choices.
	Seed uint64
	// Fairness asks for the fairness between queues, which takes one more
	// replay of every queue's jobs alone.
	Fairness bool
	// Forecasts asks the policy, where it can say, when every so many of the
	// jobs that have to wait will start; 0: none.
	Forecasts int
	// Progress, if set, is told now and then how many jobs of all have ended.
	Progress func(ended, of int)
}

// Fairness is the finish-time fairness between queues: a queue's rho is the
// mean JCT of its jobs over what it would have been under the same policy
// alone on the n-th part of the cluster, n being the number of queues. Above 1
// it would have been better off alone.
type Fairness struct {
	// Max and P95 are over the queues.
	Max float64 `json:"rhoMax"`
	P95 float64 `json:"rhoP95"`
	// Nodes is the n-th part of the cluster; a queue with a gang that needs
	// more has as many as that needs.
	Nodes int `json:"nodesAlone"`
	// Queues are in the order of their names.
	Queues []QueueFairness `json:"queues"`
}

// QueueFairness is how one queue fared.
type QueueFairness struct {
	// Queue is its name.
	Queue string `json:"queue"`
	Jobs  int    `json:"jobs"`
	// Shared and Alone are the mean JCT in hours, Rho one over the other.
	Shared float64 `json:"meanJCTHours"`
	Alone  float64 `json:"meanJCTHoursAlone"`
	Rho    float64 `json:"rho"`
}

// Run replays the jobs under the named policy and measures the outcome.
func Run(ctx context.Context, setup Setup, jobs []Job) (*Report, error) {
	of := len(jobs)
	if setup.Fairness {
		of *= 2
	}
	outcome, err := setup.replay(ctx, setup.Cluster, jobs, 0, of)
	setup.Forecasts = 0
	if err != nil {
		return nil, err
	}
	report := Measure(setup.Cluster, outcome)
	report.Foresight = MeasureForesight(outcome)
	report.Policy, report.Seed = setup.Policy, setup.Seed
	if setup.Fairness {
		report.Fairness, err = setup.fairness(ctx, outcome)
		if err != nil {
			return nil, err
		}
	}
	return report, nil
}

// replay runs jobs on the cluster with a policy of their own.
func (s *Setup) replay(ctx context.Context, cluster ClusterSpec, jobs []Job, before, of int) (*Outcome, error) {
	policy, err := NewPolicy(s.Policy, cluster, Options{Jobs: jobs, Restart: s.Restart, Seed: s.Seed})
	if err != nil {
		return nil, err
	}
	config := Config{Cluster: cluster, Restart: s.Restart, Forecasts: s.Forecasts}
	if s.Progress != nil {
		config.Progress = func(ended int) { s.Progress(before+ended, of) }
	}
	outcome, err := Replay(ctx, config, jobs, policy)
	if err != nil {
		return nil, fmt.Errorf("replaying under %s: %w", s.Policy, err)
	}
	return outcome, nil
}

// fairness runs every queue alone.
func (s *Setup) fairness(ctx context.Context, shared *Outcome) (*Fairness, error) {
	jobs := shared.Jobs
	var names []string
	for i := range jobs {
		if at, found := slices.BinarySearch(names, jobs[i].Queue); !found {
			names = slices.Insert(names, at, jobs[i].Queue)
		}
	}
	if len(names) == 0 {
		return &Fairness{}, nil
	}
	parts := make([][]Job, len(names))
	together := make([]float64, len(names))
	needs := make([]int, len(names))
	for i := range jobs {
		at, _ := slices.BinarySearch(names, jobs[i].Queue)
		job := jobs[i]
		job.ID = len(parts[at])
		parts[at] = append(parts[at], job)
		together[at] += float64(shared.Finish[i] - job.Submit)
		nodes, _ := s.Cluster.Shape(job.GPUs)
		needs[at] = max(needs[at], nodes)
	}
	fair := &Fairness{Nodes: max(1, s.Cluster.Nodes/len(names))}
	done := len(jobs)
	for at, part := range parts {
		cluster := s.Cluster
		cluster.Nodes = max(fair.Nodes, needs[at])
		outcome, err := s.replay(ctx, cluster, part, done, 2*len(jobs))
		if err != nil {
			return nil, fmt.Errorf("measuring what queue %q would have alone: %w", names[at], err)
		}
		done += len(part)
		alone := 0.0
		for i := range part {
			alone += float64(outcome.Finish[i] - part[i].Submit)
		}
		queue := QueueFairness{Queue: names[at], Jobs: len(part), Rho: 1}
		queue.Shared = rounded(together[at] / float64(len(part)) / float64(Hour))
		queue.Alone = rounded(alone / float64(len(part)) / float64(Hour))
		if alone > 0 {
			queue.Rho = rounded(together[at] / alone)
		}
		fair.Queues = append(fair.Queues, queue)
	}
	fair.summarise()
	return fair, nil
}

// summarise fills in the maximum and the 95th percentile.
func (f *Fairness) summarise() {
	rhos := make([]float64, len(f.Queues))
	for i, queue := range f.Queues {
		rhos[i] = queue.Rho
	}
	slices.Sort(rhos)
	f.Max = rhos[len(rhos)-1]
	place := float64(len(rhos)-1) * 0.95
	low := int(math.Floor(place))
	high := min(low+1, len(rhos)-1)
	f.P95 = rounded(rhos[low] + float64((rhos[high]-rhos[low])*(place-float64(low))))
}
