package simulate

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSynthetic(t *testing.T) {
	cluster := ClusterSpec{Nodes: 20, GPUsPerNode: 8, WholeNodes: true}
	synthetic := Synthetic{Jobs: 4000, Cluster: cluster, Load: 0.9, Seed: 3}
	jobs, err := synthetic.Generate()
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(Config{Cluster: cluster}, jobs); err != nil {
		t.Fatal(err)
	}
	if load := Load(cluster, jobs); math.Abs(load-0.9) > 0.03 {
		t.Errorf("load is %v, want about 0.9", load)
	}
	single, queues, names := 0, map[string]bool{}, map[string]int{}
	for _, job := range jobs {
		if job.GPUs == 1 {
			single++
		}
		queues[job.Queue] = true
		names[job.Name]++
	}
	if single < 3400 || single == len(jobs) {
		t.Errorf("%d of %d jobs ask for one GPU", single, len(jobs))
	}
	if len(queues) < 8 || len(names) > len(jobs)/8 {
		t.Errorf("%d queues, %d names", len(queues), len(names))
	}
	again, _ := synthetic.Generate()
	if diff := cmp.Diff(jobs, again); diff != "" {
		t.Error("the same seed made another workload")
	}
	synthetic.Seed++
	if other, _ := synthetic.Generate(); cmp.Equal(jobs, other) {
		t.Error("another seed made the same workload")
	}
}

func TestSyntheticFitsSmallClusters(t *testing.T) {
	cluster := ClusterSpec{Nodes: 1, GPUsPerNode: 2, WholeNodes: true}
	jobs, err := Synthetic{Jobs: 2000, Cluster: cluster, Load: 1, Seed: 1}.Generate()
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(Config{Cluster: cluster}, jobs); err != nil {
		t.Error(err)
	}
}

func TestSyntheticRefuses(t *testing.T) {
	for name, synthetic := range map[string]Synthetic{
		"no jobs": {Jobs: 0, Cluster: twoByFour, Load: 1},
		"no load": {Jobs: 1, Cluster: twoByFour},
		"NaN":     {Jobs: 1, Cluster: twoByFour, Load: math.NaN()},
		"no node": {Jobs: 1, Load: 1},
	} {
		if _, err := synthetic.Generate(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// schedules are the hashes of the schedules of one synthetic workload. A
// change means that a policy decides otherwise, or that the loop or the
// workload changed: it must be meant.
var schedules = map[string]string{
	"fifo":           "4f21352b030de3e893607594ccdbb664cd8626dd466b28d3e643e4acbc8d96c6",
	"greedy-spread":  "8628ae620ee80c025a8be028ea0242fd9b029aaecebb2c3392e48e296c4d3c06",
	"greedy-bestfit": "09badd6ffc83bdb4cf5f8e1dc79a4bc849c0d157ebc720d8477a6bb594c892c0",
	"easy":           "5dea76e1003500a4219ccd82db8c40fc54be8b9213901f975da629ddc344b380",
	"sjf-oracle":     "0f9709101e7daeffb0480b4e01c591148ec6c71cfce05c53a9968ac0ffb46627",
	"las":            "8a13dd2894a970d8e858b0431bfd8e6bd96899622d6140e9cfb4a95445d6f65a",
}

func TestSchedulesAreTheSameEverywhere(t *testing.T) {
	cluster := ClusterSpec{Nodes: 12, GPUsPerNode: 8, WholeNodes: true}
	jobs, err := Synthetic{Jobs: 3000, Cluster: cluster, Load: 0.95, Seed: 1}.Generate()
	if err != nil {
		t.Fatal(err)
	}
	if err := Declare(jobs, CoarseLimits, 1); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name := range schedules {
		report, err := Run(t.Context(), Setup{Policy: name, Cluster: cluster, Restart: RestartCost, Seed: 1}, jobs)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = report.Hash
	}
	if diff := cmp.Diff(schedules, got); diff != "" {
		t.Errorf("hashes (-want +got):\n%s", diff)
	}
}
