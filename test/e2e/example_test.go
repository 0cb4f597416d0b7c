//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestPipelineOfImages is examples/pipeline as its README has it: images that
// arrive as commits, Spark that prepares them with 2 executors, TensorFlow with 2
// parameter servers and 2 workers with GPUs, labels, and a comparison of models. Of
// each change only what it touches runs. Images that come, and go again, are those of the
// same test on a cluster, where there is no time for both.
func TestPipelineOfImages(t *testing.T) {
	m := plainTier.start(t)
	ns, ctx := m.Namespace(t), deadline(t, 20*time.Minute)
	dir, data := t.TempDir(), t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(example("pipeline"))); err != nil {
		t.Fatal(err)
	}
	muster := func(args ...string) harness.Result {
		t.Helper()
		return m.RunIn(ctx, dir, append([]string{"-n", ns}, args...)...)
	}
	// The images are scikit-learn's, which is in the environment of the example.
	images := func(args ...string) {
		t.Helper()
		list := filepath.Join(example("quickstart"), "requirements.txt")
		expect(t, muster(append([]string{"run", "--requirements", list, "--", "python", "images.py"}, args...)...), 0)
	}
	all, unseen, heldOut := filepath.Join(data, "images"), filepath.Join(data, "unseen"), filepath.Join(data, "held-out")
	images("0", "500", all)
	images("1000", "1300", heldOut)
	images("1300", "1320", unseen, "--flat")
	for _, name := range []string{"digits", "digits-held-out", "digits-in-use", "unseen"} {
		expect(t, muster("data", "create", name), 0)
	}
	write(t, data, "README", "no model yet")
	expect(t, muster("data", "put", filepath.Join(data, "README"), "digits-in-use"), 0)
	expect(t, muster("data", "put", heldOut, "digits-held-out"), 0)
	expect(t, muster("data", "put", unseen, "unseen"), 0)
	expect(t, muster("data", "put", all, "digits"), 0)
	file := filepath.Join(dir, "pipeline.yaml")
	expect(t, muster("pipeline", "apply", "-f", file), 0)
	check := func(what string, want map[string]int64) pipelineRun {
		t.Helper()
		if r := muster("pipeline", "wait", "digits", "--timeout", "420s"); r.Code != 0 {
			for _, stage := range []string{"prepare", "train", "label", "evaluate"} {
				t.Logf("%s: %s", stage, muster("pipeline", "logs", "digits", stage).Stdout)
			}
			t.Fatalf("%s: %s", what, r.Stderr)
		}
		run := lastRun(t, muster("pipeline", "runs", "digits", "-o", "json"))
		if diff := cmp.Diff(want, run.computed()); diff != "" || run.Phase != "Succeeded" {
			t.Fatalf("%s: %s: %s: %s", what, run.Phase, run.Message, diff)
		}
		return run
	}
	expect(t, muster("pipeline", "graph", "digits"), 0, "spark prepare.py, 2 executors", "training 2 ps, 2 worker with 1 GPU each")
	first := check("the first commit", map[string]int64{"decode": 500, "prepare": 1, "train": 1, "label": 20, "evaluate": 1})
	for _, s := range first.Stages {
		if s.Name != "train" {
			continue
		}
		held, _ := resource.ParseQuantity(s.GPUSeconds)
		idle, _ := resource.ParseQuantity(s.GPUIdleSeconds)
		if idle.Sign() <= 0 || held.Cmp(idle) <= 0 {
			t.Errorf("GPUs were held for %q s, and idle for %q s of it, before all members ran", s.GPUSeconds, s.GPUIdleSeconds)
		}
	}
	if r := report(t, muster("data", "cat", "digits-evaluate:/report.json")); r.Accuracy < 0.8 || r.InUse != nil || !r.Better {
		t.Errorf("the first model: %+v", r)
	}

	if long {
		images("500", "600", all)
		expect(t, muster("data", "put", all, "digits"), 0)
		check("100 images more", map[string]int64{"decode": 100, "prepare": 1, "train": 1, "label": 20, "evaluate": 1})

		expect(t, muster("data", "branch", "digits@main~1", "main", "--move"), 0)
		check("taken back", map[string]int64{"decode": 0, "prepare": 0, "train": 0, "label": 0, "evaluate": 0})
	}

	// The model is put to use, which starts nothing by itself; the next one is
	// compared with it.
	expect(t, muster("data", "get", "digits-train:/model.npz", data), 0)
	expect(t, muster("data", "put", filepath.Join(data, "model.npz"), "digits-in-use"), 0)
	script := filepath.Join(dir, "evaluate", "evaluate.py")
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Dir(script), "evaluate.py", strings.Replace(string(text), "new > old", "new >= old", 1))
	expect(t, muster("pipeline", "apply", "-f", file), 0)
	check("a line of one stage", map[string]int64{"decode": 0, "prepare": 0, "train": 0, "label": 0, "evaluate": 1})
	if r := report(t, muster("data", "cat", "digits-evaluate:/report.json")); r.InUse == nil || *r.InUse != r.Accuracy || !r.Better {
		t.Errorf("beside itself: %+v", r)
	}
}

// comparison is what evaluate.py writes.
type comparison struct {
	Accuracy float64
	InUse    *float64
	Better   bool
}

func report(t *testing.T, r harness.Result) (c comparison) {
	t.Helper()
	expect(t, r, 0)
	if err := json.Unmarshal([]byte(r.Stdout), &c); err != nil {
		t.Fatalf("%v: %s", err, r.Stdout)
	}
	return c
}
