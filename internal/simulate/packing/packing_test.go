package packing

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/scheduling/placement"
	"github.com/muster-dev/muster/internal/simulate/trace"
)

// synthetic is a small cluster and mix of the project's own.
func synthetic(policy placement.Policy) *Options {
	o := &Options{Mix: "synthetic", Policy: policy, Seeds: Seeds(3), Memory: true}
	for i := range 60 {
		n := trace.OpenbNode{Name: fmt.Sprintf("n%d", i), MilliCPU: 96000, MemoryMiB: 393216, GPUs: 8, Model: "A"}
		if i%3 == 0 {
			n.MilliCPU, n.GPUs, n.Model = 64000, 4, "B"
		}
		o.Nodes = append(o.Nodes, n)
	}
	for i := range 800 {
		p := trace.OpenbPod{MilliCPU: int64(2000 + i%7*2500), MemoryMiB: int64(8192 + i%5*8192)}
		switch i % 10 {
		case 0, 1, 2:
			p.GPUs = 1
		case 3, 4, 5, 6, 7:
			p.Milli = int64(100 + i*37%800)
		case 8:
			p.GPUs, p.MilliCPU = 2<<(i%3), 40000
		}
		if i%11 == 0 && p.GPUs < 5 {
			p.Models = []string{"B"}
		}
		o.Pods = append(o.Pods, p)
	}
	return o
}

func TestSameBytesTwice(t *testing.T) {
	for policy := placement.Muster; policy <= placement.Spread; policy++ {
		for _, learning := range []Learning{FromTrace, FromArrivals} {
			var out [2]string
			for i := range out {
				o := synthetic(policy)
				o.Learning = learning
				rows, err := Run(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				b, err := json.Marshal(rows)
				if err != nil {
					t.Fatal(err)
				}
				out[i] = string(b)
			}
			if out[0] != out[1] {
				t.Errorf("%s: two runs differ:\n%s\n%s", policy, out[0], out[1])
			}
		}
	}
}

func TestAllocationIsPossible(t *testing.T) {
	mean := map[placement.Policy]float64{}
	for policy := placement.Muster; policy <= placement.Spread; policy++ {
		rows, err := Run(t.Context(), synthetic(policy))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			last := 0.0
			for i, a := range r.AllocationPercent {
				if a < last || a > 100 || a > float64(Levels[i])+2 {
					t.Errorf("%s, seed %d: allocation %v at levels %v", policy, r.Seed, r.AllocationPercent, Levels)
					break
				}
				last = a
			}
		}
		mean[policy] = Mean(rows)[3]
	}
	if mean[placement.Muster] < mean[placement.FGD]-0.2 || mean[placement.Muster] < mean[placement.Random] {
		t.Errorf("allocation at 100 %% arrivals, by policy: %v", mean)
	}
}

func TestImpossibleInputIsExplained(t *testing.T) {
	o := synthetic(placement.Muster)
	o.Pods = []trace.OpenbPod{{MilliCPU: 1000}}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no pod asks for a GPU") {
		t.Errorf("pods without GPUs: %v", err)
	}
	o = synthetic(placement.Muster)
	o.Nodes = []trace.OpenbNode{{Name: "n", MilliCPU: 1000}}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no GPUs") {
		t.Errorf("nodes without GPUs: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, synthetic(placement.Muster)); err == nil {
		t.Error("a cancelled run ended without an error")
	}
}
