//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// pipelineRun is what `muster pipeline runs -o json` prints of one.
type pipelineRun struct {
	Name, Identity, Phase, Message string
	Computed, Reused, Failed       int64
	Seconds                        float64
	Stages                         []struct {
		Name, Phase, Why, Job      string
		Datums                     struct{ Total, Reused, Computed, Failed int64 }
		GPUSeconds, GPUIdleSeconds string
	}
}

// lastRun is the last run of a pipeline.
func lastRun(t *testing.T, r harness.Result) pipelineRun {
	t.Helper()
	expect(t, r, 0)
	var all []pipelineRun
	if err := json.Unmarshal([]byte(r.Stdout), &all); err != nil || len(all) == 0 {
		t.Fatalf("%v: %s", err, r.Stdout)
	}
	return all[len(all)-1]
}

func (r pipelineRun) computed() map[string]int64 {
	out := map[string]int64{}
	for _, s := range r.Stages {
		out[s.Name] = s.Datums.Computed
	}
	return out
}

// threeStages prepares numbers by a script of its own, trains on all of them by a
// TrainingJob with a GPU, and uses what came of it for each number.
var threeStages = map[string]string{
	"pipeline.yaml": `
metadata: {name: numbers}
spec:
  stages:
  - name: prepare
    input: {dataset: numbers, glob: "/*"}
    script: prepare/prepare.py
    parallelism: {max: 2}
  - name: train
    input: {stage: prepare}
    training:
      checkpoints: {none: true}
      roles:
      - {name: worker, gpus: 1, script: train.py}
  - name: use
    input: {cross: [{stage: train}, {stage: prepare, glob: "/*"}]}
    command: [sh, -c, 'for f in $MUSTER_INPUT_PREPARE/*; do echo "$(cat $MUSTER_INPUT_TRAIN/model) $(cat $f)" > $MUSTER_OUTPUT/$(basename $f); done; echo used $MUSTER_DATUM']
`,
	"prepare/prepare.py": `
import os, pathlib
out = pathlib.Path(os.environ["MUSTER_OUTPUT"])
for path in pathlib.Path(os.environ["MUSTER_INPUT_NUMBERS"]).iterdir():
    number = int(path.read_text())
    (out / path.name).write_text(str(number * 2))
    print("prepared", number)
`,
	"train.py": `
import os, pathlib
numbers = [int(p.read_text()) for p in pathlib.Path(os.environ["MUSTER_INPUT_PREPARE"]).iterdir()]
assert os.environ["MUSTER_GPUS"] or os.environ["CUDA_VISIBLE_DEVICES"]
pathlib.Path(os.environ["MUSTER_OUTPUT"], "model").write_text("sum=%d" % sum(numbers))
`,
}

// TestPipeline takes a pipeline through a commit, another one, a revert and a
// change of code.
func TestPipeline(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx := m.Namespace(t), deadline(t, 4*time.Minute)
		muster := func(args ...string) harness.Result {
			t.Helper()
			return m.Run(ctx, append([]string{"-n", ns}, args...)...)
		}
		dir := folder(t, threeStages)
		file := filepath.Join(dir, "pipeline.yaml")
		data := folder(t, map[string]string{"one": "1", "two": "2"})
		check := func(what string, want map[string]int64) pipelineRun {
			t.Helper()
			expect(t, muster("pipeline", "wait", "numbers", "--timeout", "60s"), 0)
			run := lastRun(t, muster("pipeline", "runs", "numbers", "-o", "json"))
			if diff := cmp.Diff(want, run.computed()); diff != "" || run.Phase != "Succeeded" {
				t.Errorf("%s: %s: %s: %s", what, run.Phase, run.Message, diff)
			}
			return run
		}
		expect(t, muster("pipeline", "apply", "-f", file), 0, "pipeline numbers created")
		expect(t, muster("pipeline", "list"), 0, "numbers", "waits for dataset numbers")
		expect(t, muster("data", "create", "numbers"), 0)
		expect(t, muster("data", "put", data, "numbers"), 0)
		first := check("the first commit", map[string]int64{"prepare": 2, "train": 1, "use": 2})
		expect(t, muster("data", "cat", "numbers-use:/two"), 0, "sum=6 4")
		expect(t, muster("pipeline", "logs", "numbers", "prepare", "--datum", "two"), 0, "prepared 2")
		expect(t, muster("pipeline", "graph", "numbers"), 0, "numbers@main", "prepare", "1 GPU", "Succeeded")
		expect(t, muster("pipeline", "graph", "numbers", "--svg", "-"), 0, "<svg", "train")

		expect(t, muster("pipeline", "explain", "numbers", "--next"), 0, "would compute nothing")
		write(t, data, "three", "3")
		expect(t, muster("data", "put", data, "numbers@candidate"), 0)
		expect(t, muster("pipeline", "explain", "numbers", "--next", "--with", "numbers@candidate"), 0,
			"computes 1 datum of 3, takes 0 that have results, 2 as they were", "computes at most 1 datum", "computes at most 3 datums", "by 2 results of before")
		expect(t, muster("data", "put", data, "numbers"), 0)
		check("one file more", map[string]int64{"prepare": 1, "train": 1, "use": 3})
		expect(t, muster("pipeline", "explain", "numbers"), 0, "1 datum new or different")
		expect(t, muster("pipeline", "explain", "numbers", "prepare", "--datum", "three"), 0, "computed by this run", "had no datum of this name")
		expect(t, muster("pipeline", "explain", "numbers", "prepare", "--datum", "two"), 0, "not computed: it is as it was", "run "+first.Name)
		expect(t, muster("pipeline", "explain", "numbers", "prepare", "--datum", "four"), 3, "has no datum")
		expect(t, muster("data", "trace", "numbers-use:/two"), 0, "stage use of pipeline numbers", "stage train", "code: train.py", "stage prepare", "numbers:/two", "put by")
		expect(t, muster("data", "trace", "numbers:/three", "--made"), 0, "numbers-prepare", "numbers/train", "numbers-use")
		expect(t, muster("data", "trace", "numbers@main~1:/two", "--made"), 0, "numbers-prepare", "numbers-use")
		expect(t, muster("data", "trace", "numbers:/four", "--made"), 3, "numbers has no four")

		expect(t, muster("data", "branch", "numbers@main~1", "main", "--move"), 0)
		reverted := check("back", map[string]int64{"prepare": 0, "train": 0, "use": 0})
		expect(t, muster("data", "cat", "numbers-use:/two"), 0, "sum=6 4")
		t.Logf("a run that computes nothing took %.3f s", reverted.Seconds)

		write(t, dir, "train.py", strings.Replace(threeStages["train.py"], "sum=%d", "total=%d", 1))
		expect(t, muster("pipeline", "explain", "-f", file), 0, "computes 0 datums of 2", "computes 1 datum of 1", "code file train.py", "computes at most 2 datums")
		expect(t, muster("pipeline", "apply", "-f", file), 0, "pipeline numbers configured")
		check("a line of one stage", map[string]int64{"prepare": 0, "train": 1, "use": 2})
		expect(t, muster("pipeline", "explain", "numbers", "train"), 0, "code file train.py")
		expect(t, muster("pipeline", "explain", "numbers", "use", "--datum", "train/+prepare/two"), 0, "computed by this run", "file train/model: ")
		expect(t, muster("data", "cat", "numbers-use:/two"), 0, "total=6 4")
		expect(t, m.Run(ctx, "prune", "--dry-run", "--older-than", "0s"), 0, "would remove", "of pipelines; muster data gc frees")
		expect(t, muster("pipeline", "delete", "--yes", first.Name), 0, "run "+first.Name+" deleted")
		expect(t, muster("pipeline", "delete", "--yes", "numbers"), 0, "its datasets stay")
	})
}

// jsonPipeline says as JSON what others say as YAML.
const jsonPipeline = `{
  "apiVersion": "muster.dev/v1alpha1",
  "kind": "Pipeline",
  "metadata": {"name": "counted", "labels": {"team": "words"}},
  "spec": {
    "stages": [
      {
        "name": "upper",
        "input": {"dataset": "words", "glob": "/*"},
        "env": [{"name": "TO", "value": "A-Z"}],
        "command": ["sh", "-c", "tr a-z $TO < $MUSTER_INPUT_WORDS/$MUSTER_DATUM > $MUSTER_OUTPUT/$MUSTER_DATUM"],
        "parallelism": {"max": 2}
      },
      {
        "name": "all",
        "input": {"cross": [{"stage": "upper"}, {"dataset": "words", "name": "lower"}]},
        "script": "all.py",
        "output": {"dataset": "result", "branch": "next"}
      }
    ]
  }
}
`

// TestPipelineInJSON applies a pipeline that is written in JSON, with a script beside it.
func TestPipelineInJSON(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx := m.Namespace(t), deadline(t, 90*time.Second)
		muster := func(args ...string) harness.Result {
			t.Helper()
			return m.Run(ctx, append([]string{"-n", ns}, args...)...)
		}
		dir := folder(t, map[string]string{
			"pipeline.json": jsonPipeline,
			"misspelt.json": strings.Replace(jsonPipeline, `"parallelism"`, `"paralelism"`, 1),
			"all.py": `
import os, pathlib
for name in "UPPER", "LOWER":
    for path in sorted(pathlib.Path(os.environ["MUSTER_INPUT_" + name]).iterdir()):
        print(path.read_text(), end="", file=open(os.environ["MUSTER_OUTPUT"] + "/all", "a"))
`})
		expect(t, muster("pipeline", "apply", "-f", filepath.Join(dir, "misspelt.json")), 2, "paralelism")
		expect(t, muster("pipeline", "apply", "-f", filepath.Join(dir, "pipeline.json")), 0, "pipeline counted created")
		expect(t, muster("pipeline", "apply", "-f", filepath.Join(dir, "pipeline.json")), 0, "pipeline counted unchanged")
		expect(t, muster("data", "create", "words"), 0)
		expect(t, muster("data", "put", folder(t, map[string]string{"a": "one\n", "b": "two\n"}), "words"), 0)
		expect(t, muster("pipeline", "wait", "counted", "--timeout", "60s"), 0)
		if r := muster("data", "cat", "result@next:/all"); r.Stdout != "ONE\nTWO\none\ntwo\n" {
			t.Errorf("%q: %s", r.Stdout, r.Stderr)
		}
		run := lastRun(t, muster("pipeline", "runs", "counted", "-o", "json"))
		if diff := cmp.Diff(map[string]int64{"upper": 2, "all": 1}, run.computed()); diff != "" {
			t.Error(diff)
		}
		expect(t, m.Kubectl(ctx, "", "-n", ns, "get", "pipelines", "-l", "team=words"), 0, "counted")
	})
}

// TestPipelineSurvives kills a worker, and then Muster itself, while datums are
// computed: each is computed, and what was finished is not computed twice.
func TestPipelineSurvives(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx := m.Namespace(t), deadline(t, 4*time.Minute)
		muster := func(args ...string) harness.Result {
			t.Helper()
			return m.Run(ctx, append([]string{"-n", ns}, args...)...)
		}
		trace := filepath.Join(t.TempDir(), "trace")
		files := map[string]string{}
		for i := range 40 {
			files[fmt.Sprintf("f%02d", i)] = fmt.Sprint(i)
		}
		dir := folder(t, map[string]string{"p.yaml": fmt.Sprintf(`
metadata: {name: steady}
spec:
  stages:
  - name: slow
    input: {dataset: things, glob: "/*"}
    command: [sh, -c, 'sleep 0.3; cp $MUSTER_INPUT_THINGS/* $MUSTER_OUTPUT; echo $MUSTER_DATUM >> %s']
    parallelism: {max: 2}
`, trace)})
		expect(t, muster("data", "create", "things"), 0)
		expect(t, muster("data", "put", folder(t, files), "things"), 0)
		expect(t, muster("pipeline", "apply", "-f", filepath.Join(dir, "p.yaml")), 0)
		lines := func(n int) {
			t.Helper()
			harness.Eventually(t, time.Minute, fmt.Sprintf("waiting for %d datums", n), func() error {
				text, _ := os.ReadFile(trace)
				if got := strings.Count(string(text), "\n"); got < n {
					return fmt.Errorf("%d so far", got)
				}
				return nil
			})
		}
		lines(4)
		killed := 0
		for _, p := range harness.Processes(m.Home) {
			if !p.Shim && strings.Contains(p.Command, " worker --work ") && killed == 0 {
				killed++
				if err := p.Kill(); err != nil {
					t.Error(err)
				}
			}
		}
		if killed == 0 {
			t.Fatal("no worker was found")
		}
		lines(12)
		m.Kill9(t)
		if err := m.Start(ctx); err != nil {
			t.Fatal(err)
		}
		expect(t, muster("pipeline", "wait", "steady", "--timeout", "90s"), 0)
		text, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		times := map[string]int{}
		for line := range strings.Lines(string(text)) {
			times[strings.TrimSpace(line)]++
		}
		twice := 0
		for _, n := range times {
			twice += n - 1
		}
		// What the killed worker had in its hands may have been finished but for
		// its word.
		if len(times) != 40 || twice > 2 {
			t.Errorf("%d of 40 datums were computed, %d of them twice", len(times), twice)
		}
		same(t, folder(t, maps.Clone(files)), gotten(t, func(args ...string) harness.Result { return muster(append([]string{"data"}, args...)...) }, "steady-slow"))
	})
}

// TestPipelineOfManyDatums computes 2,000 trivial datums, a program for each.
func TestPipelineOfManyDatums(t *testing.T) {
	m := plainTier.start(t)
	ns, ctx := m.Namespace(t), deadline(t, 5*time.Minute)
	muster := func(args ...string) harness.Result {
		t.Helper()
		return m.Run(ctx, append([]string{"-n", ns}, args...)...)
	}
	const n = 2000
	data := t.TempDir()
	for i := range n {
		write(t, data, fmt.Sprintf("%05d", i), fmt.Sprint(i))
	}
	dir := folder(t, map[string]string{"p.yaml": `
metadata: {name: many}
spec:
  stages:
  - name: copy
    input: {dataset: things, glob: "/*"}
    command: [cp, -r, $(MUSTER_INPUT_THINGS)/., $(MUSTER_OUTPUT)]
    parallelism: {max: 2}
`})
	expect(t, muster("data", "create", "things"), 0)
	expect(t, muster("pipeline", "apply", "-f", filepath.Join(dir, "p.yaml")), 0)
	expect(t, muster("data", "put", data, "things"), 0)
	begin := time.Now()
	expect(t, muster("pipeline", "wait", "many"), 0)
	run := lastRun(t, muster("pipeline", "runs", "many", "-o", "json"))
	t.Logf("%d trivial datums in %.1f s: %.0f a second", run.Computed, time.Since(begin).Seconds(), float64(run.Computed)/time.Since(begin).Seconds())
	if run.Computed != n {
		t.Errorf("%d of %d were computed: %s", run.Computed, n, run.Message)
	}
}

// TestPipelinesTogether has two pipelines want the same at once: it is computed once.
// Of runs that ended the last ones are kept.
func TestPipelinesTogether(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx := m.Namespace(t), deadline(t, 3*time.Minute)
		muster := func(args ...string) harness.Result {
			t.Helper()
			return m.Run(ctx, append([]string{"-n", ns}, args...)...)
		}
		trace := filepath.Join(t.TempDir(), "trace")
		pipeline := func(name string) string {
			return fmt.Sprintf(`
metadata: {name: %s}
spec:
  historyLimit: 1
  stages:
  - name: slow
    input: {dataset: things, glob: "/*"}
    command: [sh, -c, 'sleep 0.5; cp $MUSTER_INPUT_THINGS/* $MUSTER_OUTPUT; echo $MUSTER_DATUM >> %s']
`, name, trace)
		}
		dir := folder(t, map[string]string{"left.yaml": pipeline("left"), "right.yaml": pipeline("right")})
		data := folder(t, map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"})
		for _, name := range []string{"left", "right"} {
			expect(t, muster("pipeline", "apply", "-f", filepath.Join(dir, name+".yaml")), 0)
		}
		check := func(want map[string]int) {
			t.Helper()
			for _, name := range []string{"left", "right"} {
				expect(t, muster("pipeline", "wait", name, "--timeout", "60s"), 0)
				same(t, data, gotten(t, func(args ...string) harness.Result { return muster(append([]string{"data"}, args...)...) }, name+"-slow"))
			}
			text, err := os.ReadFile(trace)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int{}
			for line := range strings.Lines(string(text)) {
				got[strings.TrimSpace(line)]++
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("how often each was computed: %s", diff)
			}
		}
		expect(t, muster("data", "create", "things"), 0)
		expect(t, muster("data", "put", data, "things"), 0)
		check(map[string]int{"a": 1, "b": 1, "c": 1, "d": 1})
		write(t, data, "e", "5")
		expect(t, muster("data", "put", data, "things"), 0)
		check(map[string]int{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1})
		harness.Eventually(t, 20*time.Second, "waiting for the first run to be forgotten", func() error {
			var all []pipelineRun
			r := muster("pipeline", "runs", "left", "-o", "json")
			if err := json.Unmarshal([]byte(r.Stdout), &all); err != nil || len(all) != 1 || all[0].Computed+all[0].Reused != 5 {
				return fmt.Errorf("%w: %s", err, r.Stdout)
			}
			return nil
		})
	})
}

// TestRunsOfOneCommit has a pipeline read what another one makes: what one commit started
// is found, waited for and deleted together. A paused pipeline starts nothing until it is
// resumed, and a run that is made again computes all of it where that is asked for.
func TestRunsOfOneCommit(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx := m.Namespace(t), deadline(t, 3*time.Minute)
		muster := func(args ...string) harness.Result {
			t.Helper()
			return m.Run(ctx, append([]string{"-n", ns}, args...)...)
		}
		dir := folder(t, map[string]string{"first.yaml": `
metadata: {name: first}
spec:
  stages:
  - name: up
    input: {dataset: texts, glob: "/*"}
    command: [sh, -c, 'tr a-z A-Z < $MUSTER_INPUT_TEXTS/$MUSTER_DATUM > $MUSTER_OUTPUT/$MUSTER_DATUM']
`, "second.yaml": `
metadata: {name: second}
spec:
  stages:
  - name: all
    input: {dataset: first-up}
    command: [sh, -c, 'sleep 1; cat $MUSTER_INPUT_FIRST_UP/* > $MUSTER_OUTPUT/all']
`})
		texts := folder(t, map[string]string{"a": "one\n"})
		for _, name := range []string{"first", "second"} {
			expect(t, muster("pipeline", "apply", "-f", filepath.Join(dir, name+".yaml")), 0)
		}
		expect(t, muster("data", "create", "texts"), 0)
		expect(t, muster("data", "put", texts, "texts"), 0)
		made := func(want string) pipelineRun {
			t.Helper()
			expect(t, muster("pipeline", "wait", "first", "--timeout", "60s"), 0) // and for the second
			if got := muster("data", "cat", "second-all:/all"); got.Stdout != want {
				t.Fatalf("%q, want %q: %s", got.Stdout, want, got.Stderr)
			}
			return lastRun(t, muster("pipeline", "runs", "first", "-o", "json"))
		}
		before := made("ONE\n")

		expect(t, muster("pipeline", "pause", "first"), 0, "pipeline first paused")
		write(t, texts, "b", "two\n")
		expect(t, muster("data", "put", texts, "texts"), 0)
		expect(t, muster("pipeline", "list"), 0, "Paused", "starts a run once it is resumed")
		if run := lastRun(t, muster("pipeline", "runs", "first", "-o", "json")); run.Name != before.Name {
			t.Errorf("while it was paused run %s began", run.Name)
		}
		expect(t, muster("pipeline", "resume", "first"), 0, "pipeline first resumed")
		harness.Eventually(t, 20*time.Second, "waiting for the run of what changed meanwhile", func() error {
			if run := lastRun(t, muster("pipeline", "runs", "first", "-o", "json")); run.Name == before.Name {
				return fmt.Errorf("the last run is %s", run.Name)
			}
			return nil
		})
		run := made("ONE\nTWO\n")

		deleted := muster("pipeline", "delete", "--yes", run.Name)
		expect(t, deleted, 0, "run "+run.Name+" deleted", "first-up@main is back", "second-all@main is back")
		if n := strings.Count(deleted.Stdout, " deleted"); n != 2 {
			t.Errorf("%d runs were deleted of the two that the commit started: %s", n, deleted.Stdout)
		}
		if got := muster("data", "cat", "second-all:/all"); got.Stdout != "ONE\n" {
			t.Errorf("after its run was deleted: %q", got.Stdout)
		}
		expect(t, muster("pipeline", "rerun", "first", "--all"), 0, "muster pipeline wait first-again-")
		expect(t, muster("pipeline", "wait", "first", "--timeout", "60s"), 0)
		if again := lastRun(t, muster("pipeline", "runs", "first", "-o", "json")); again.Computed != 1 || again.Reused != 0 {
			t.Errorf("again: %+v", again)
		}
	})
}
