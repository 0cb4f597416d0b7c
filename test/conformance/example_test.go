//go:build conformance

package conformance

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// example is somebody with examples/pipeline, as cluster.yaml has it, in images of the
// platform's.
type example struct {
	*author
	// dir has a copy of the example, and data what is put and got.
	dir, data string
	// python has what images.py needs.
	python string
}

func newExample(t *testing.T) *example {
	t.Helper()
	python, err := environment(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e := &example{
		author: the.author(t),
		dir:    t.TempDir(), data: t.TempDir(), python: filepath.Join(python, "bin", "python"),
	}
	if err := os.CopyFS(e.dir, os.DirFS(filepath.Join(harness.Root(), "examples", "pipeline"))); err != nil {
		t.Fatal(err)
	}
	e.edit("cluster.yaml", "registry.example.com/digits:1", the.python)
	e.edit("cluster.yaml", "registry.example.com/spark:1", the.spark.Name)
	return e
}

// edit puts new in the place of old, which has to be there, in a file of the example.
func (e *example) edit(path, old, new string) {
	e.Helper()
	file := filepath.Join(e.dir, path)
	text, err := os.ReadFile(file)
	if err != nil {
		e.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		e.Fatalf("%s has no %q to change", path, old)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), old, new)), 0o600); err != nil {
		e.Fatal(err)
	}
}

// arrive puts images of these numbers into a dataset, beside those that are there.
func (e *example) arrive(dataset, first, last string, more ...string) {
	e.Helper()
	folder := filepath.Join(e.data, dataset)
	cmd := exec.CommandContext(e.Context(), e.python, append([]string{filepath.Join(e.dir, "images.py"), first, last, folder}, more...)...)
	if r := harness.Finish(cmd); r.Code != 0 {
		e.Fatalf("images.py: %s%s", r.Stdout, r.Stderr)
	}
	e.says("", "data", "put", folder, dataset)
}

// ran is what a run did with the datums of a stage.
type ran struct{ Computed, Reused int64 }

// does waits for a run, which has to have computed this of each stage, and to have taken
// that from before.
func (e *example) does(what string, want map[string]ran) pipelineRun {
	e.Helper()
	e.finishes("digits", 7*time.Minute)
	run, got := e.lastRun("digits"), map[string]ran{}
	for _, s := range run.Stages {
		got[s.Name] = ran{s.Datums.Computed, s.Datums.Reused}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		e.Fatalf("%s: %s", what, diff)
	}
	return run
}

// jobs are all that ever were for stages of the example: they are kept for an hour.
func (e *example) jobs() string {
	e.Helper()
	r := the.kubectl(e, "", "get", "trainingjobs", "-n", e.namespace, "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}{"\n"}{end}`)
	if r.Code != 0 {
		e.Fatalf("listing jobs: %s", r.Stderr)
	}
	return r.Stdout
}

// model is the one that the pipeline has come to, as a file.
func (e *example) model() (file string, bytes []byte) {
	e.Helper()
	e.says("", "data", "get", "digits-train:/model.npz", e.data)
	file = filepath.Join(e.data, "model.npz")
	bytes, err := os.ReadFile(file)
	if err != nil {
		e.Fatal(err)
	}
	return file, bytes
}

// comparison is what evaluate.py writes.
type comparison struct {
	Accuracy float64
	InUse    *float64
	Better   bool
}

func (e *example) report() (c comparison) {
	e.Helper()
	r := e.muster("data", "cat", "digits-evaluate:/report.json")
	if err := json.Unmarshal([]byte(r.Stdout), &c); err != nil {
		e.Fatalf("%v: %s%s", err, r.Stdout, r.Stderr)
	}
	return c
}

// TestExampleOfImages is examples/pipeline on a cluster, as cluster.yaml has it: images
// that arrive as commits, Spark with 2 executors, TensorFlow with 2 parameter servers and
// 2 workers with GPUs, labels, and a comparison of models. Of a change only what it
// touches runs.
func TestExampleOfImages(t *testing.T) {
	if !the.apart {
		return // on one machine it is that of the tests end to end
	}
	onAgents(t)
	e := newExample(t)
	for _, name := range []string{"digits", "digits-held-out", "digits-in-use", "unseen"} {
		e.says("created", "data", "create", name)
	}
	e.put("digits-in-use", map[string]string{"README": "no model yet"})
	e.arrive("digits-held-out", "1000", "1300")
	e.arrive("unseen", "1300", "1305", "--flat")
	e.arrive("digits", "0", "500")
	e.says("created", "pipeline", "apply", "-f", filepath.Join(e.dir, "cluster.yaml"))
	first := e.does("the first commit", map[string]ran{"decode": {500, 0}, "prepare": {1, 0}, "train": {1, 0}, "label": {5, 0}, "evaluate": {1, 0}})
	for _, s := range first.Stages {
		if s.Name == "train" && s.GPUSeconds == nil {
			t.Error("nobody says for how long the GPUs of the training were held")
		}
	}
	if r := e.report(); r.Accuracy < 0.8 || r.InUse != nil || !r.Better {
		t.Errorf("the first model: %+v", r)
	}
	_, learned := e.model()

	e.arrive("unseen", "1305", "1307", "--flat")
	e.does("2 images to label", map[string]ran{"decode": {0, 500}, "prepare": {0, 1}, "train": {0, 1}, "label": {2, 5}, "evaluate": {0, 1}})

	e.arrive("digits", "500", "600")
	e.does("100 images more", map[string]ran{"decode": {100, 500}, "prepare": {1, 0}, "train": {1, 0}, "label": {7, 0}, "evaluate": {1, 0}})

	jobs := e.jobs()
	e.says("", "data", "branch", "digits@main~1", "main", "--move")
	back := e.does("taken back", map[string]ran{"decode": {0, 500}, "prepare": {0, 1}, "train": {0, 1}, "label": {0, 7}, "evaluate": {0, 1}})
	for _, s := range back.Stages {
		if s.Job != "" || s.GPUSeconds != nil {
			t.Errorf("for %s, of which all is known, there is the job %q, which held GPUs for %v s", s.Name, s.Job, s.GPUSeconds)
		}
	}
	if diff := cmp.Diff(jobs, e.jobs()); diff != "" {
		t.Errorf("nothing was to run, but: %s", diff)
	}
	model, again := e.model()
	if string(again) != string(learned) {
		t.Error("the images of before are back, and not the model that was learned from them")
	}

	// The model is put to use, which starts nothing by itself; the next one is
	// compared with it.
	e.says("", "data", "put", model, "digits-in-use")
	e.edit(filepath.Join("evaluate", "evaluate.py"), "new > old", "new >= old")
	e.says("", "pipeline", "apply", "-f", filepath.Join(e.dir, "cluster.yaml"))
	e.does("a line of one stage", map[string]ran{"decode": {0, 500}, "prepare": {0, 1}, "train": {0, 1}, "label": {0, 7}, "evaluate": {1, 0}})
	if r := e.report(); r.InUse == nil || *r.InUse != r.Accuracy || !r.Better {
		t.Errorf("beside itself: %+v", r)
	}
}
