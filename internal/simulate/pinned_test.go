package simulate

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var record = flag.Bool("record", false, "write down the hashes of Muster's own schedules instead of checking them")

// pinned are the workloads of which Muster's own schedule is pinned.
var pinned = []struct {
	name   string
	limits Limits
	load   float64
}{
	{"coarse-limits", CoarseLimits, 0.95},
	{"overloaded", CoarseLimits, 1.3},
	{"no-limits", NoLimits, 0.95},
}

// TestMusterSchedulesAreTheSameEverywhere holds Muster's own policy to the
// byte. A change of the scheduler that is meant changes the hashes; write them
// down anew with
//
//	go test ./internal/simulate -run TestMusterSchedulesAreTheSameEverywhere -record
//
// and look at what the change does to the figures (make bench-scheduler).
func TestMusterSchedulesAreTheSameEverywhere(t *testing.T) {
	cluster := ClusterSpec{Nodes: 12, GPUsPerNode: 8, WholeNodes: true}
	var got strings.Builder
	for _, p := range pinned {
		jobs, err := Synthetic{Jobs: 2000, Cluster: cluster, Load: p.load, Seed: 1}.Generate()
		if err != nil {
			t.Fatal(err)
		}
		if err := Declare(jobs, p.limits, 1); err != nil {
			t.Fatal(err)
		}
		report, err := Run(t.Context(), Setup{Policy: "muster", Cluster: cluster, Restart: RestartCost, Seed: 1}, jobs)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(&got, "%s  %s\n", report.Hash, p.name)
	}
	path := filepath.Join("testdata", "muster.hashes")
	if *record {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got.String() {
		t.Errorf("Muster decides otherwise than it did.\nwas:\n%snow:\n%sIf that is meant: go test ./internal/simulate -run TestMusterSchedulesAreTheSameEverywhere -record", want, &got)
	}
}
