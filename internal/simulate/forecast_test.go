package simulate_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/simulate"
)

// foreseen replays a made-up workload in which many have to wait.
func foreseen(t *testing.T, policy string, forecasts int) *simulate.Report {
	t.Helper()
	cluster := simulate.ClusterSpec{Nodes: 16, GPUsPerNode: 8, WholeNodes: true}
	jobs, err := simulate.Synthetic{Jobs: 4000, Cluster: cluster, Load: 1.0, Seed: 3}.Generate()
	if err != nil {
		t.Fatal(err)
	}
	if err := simulate.Declare(jobs, simulate.CoarseLimits, 1); err != nil {
		t.Fatal(err)
	}
	report, err := simulate.Run(context.Background(), simulate.Setup{
		Policy: policy, Cluster: cluster, Restart: simulate.RestartCost, Forecasts: forecasts,
	}, jobs)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// Most true starts are inside the range, twice the same; and asking changes
// nothing.
func TestForecastsComeTrue(t *testing.T) {
	report := foreseen(t, "muster", 2)
	f := report.Foresight
	if f == nil || f.Asked < 100 || f.Answered < f.Asked*9/10 {
		t.Fatalf("%+v", f)
	}
	if f.Within < 70 || f.P50Width > 25 {
		t.Errorf("%.1f %% of %d starts are inside ranges of width %.2f", f.Within, f.Answered, f.P50Width)
	}
	if diff := cmp.Diff(f, foreseen(t, "muster", 2).Foresight); diff != "" {
		t.Errorf("the second time (-first +second):\n%s", diff)
	}
	if quiet := foreseen(t, "muster", 0); quiet.Hash != report.Hash || quiet.Foresight != nil {
		t.Errorf("asking changes the schedule: %s, unasked %s", report.Hash, quiet.Hash)
	}
}

// A policy that cannot say when is asked in vain.
func TestForecastsOfAPolicyWithoutAny(t *testing.T) {
	if f := foreseen(t, "fifo", 2).Foresight; f != nil {
		t.Errorf("%+v", f)
	}
}
