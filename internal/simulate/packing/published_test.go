//go:build traces

package packing

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/muster-dev/muster/internal/scheduling/placement"
	"github.com/muster-dev/muster/internal/simulate/trace"
)

// traces is the folder with the recorded traces.
func traces(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("MUSTER_TRACES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "traces")
	}
	dir = filepath.Join(dir, "openb")
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("the recorded traces are not there (set MUSTER_TRACES): %v", err)
	}
	return dir
}

// read opens a file of the traces and reads it.
func read[T any](t *testing.T, path string, reader func(string, *os.File) (T, error)) T {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	v, err := reader(path, f)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestPublished compares with the published means of ten seeds: those of the
// published policies are met within half a point, and the policy Muster is
// nowhere more than 0.2 below FGD.
func TestPublished(t *testing.T) {
	dir := traces(t)
	nodes := read(t, filepath.Join(dir, "openb_node_list_gpu_node.csv"), func(n string, f *os.File) ([]trace.OpenbNode, error) { return trace.ReadOpenbNodes(n, f) })
	want := read(t, filepath.Join(dir, "published-allocation.csv"), published100)
	measure := func(mix string, pods []trace.OpenbPod, p placement.Policy, learning Learning) []float64 {
		rows, err := Run(t.Context(), &Options{Mix: mix, Nodes: nodes, Pods: pods, Policy: p, Seeds: Seeds(10), Memory: true, Learning: learning})
		if err != nil {
			t.Fatal(err)
		}
		return Mean(rows)
	}
	for _, mix := range []string{"default", "cpu050", "cpu100", "gpushare40", "gpushare60", "gpuspec10", "gpuspec20", "multigpu20", "multigpu30"} {
		pods := read(t, filepath.Join(dir, "openb_pod_list_"+mix+".csv"), func(n string, f *os.File) ([]trace.OpenbPod, error) { return trace.ReadOpenbPods(n, f) })
		line := mix
		for _, p := range []placement.Policy{placement.Random, placement.BestFit, placement.FGD} {
			got, published := measure(mix, pods, p, FromTrace)[3], want[mix][p]
			line += fmt.Sprintf("  %s %.2f (published %.2f)", p, got, published)
			if got < published-0.5 || got > published+0.5 {
				t.Errorf("%s, %s: %.2f %% at 100 %% arrivals; published are %.2f", mix, p, got, published)
			}
		}
		got, learned := measure(mix, pods, placement.Muster, FromTrace)[3], measure(mix, pods, placement.Muster, FromArrivals)[3]
		t.Logf("%s  muster %.2f, learning from arrivals %.2f", line, got, learned)
		if fgd := want[mix][placement.FGD]; got < fgd-0.2 || learned < fgd-0.2 {
			t.Errorf("%s: muster %.2f, learning %.2f; FGD published %.2f", mix, got, learned, fgd)
		}
		if mix == "default" && got < 95.7 {
			t.Errorf("default: muster %.2f; the target is 95.7", got)
		}
	}
}

// published100 reads the published allocation at 100 % arrivals.
func published100(name string, f *os.File) (map[string]map[placement.Policy]float64, error) {
	table, err := trace.NewTable(name, f, []string{"workload", "policy", "alloc_pct_at_arrival_100"}, nil)
	if err != nil {
		return nil, err
	}
	policies := map[string]placement.Policy{"01-Random": placement.Random, "05-BestFit": placement.BestFit, "06-FGD": placement.FGD}
	out := map[string]map[placement.Policy]float64{}
	for table.Next() == nil {
		p, ok := policies[table.Get(1)]
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(table.Get(2), 64)
		if err != nil {
			return nil, err
		}
		mix := strings.TrimPrefix(strings.Clone(table.Get(0)), "openb_pod_list_")
		if out[mix] == nil {
			out[mix] = map[placement.Policy]float64{}
		}
		out[mix][p] = v
	}
	return out, nil
}
