package pipeline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/pipeline"
)

// words is a pipeline of three stages: each word in capitals, each with the number
// of its letters, and how many there are.
const words = `
metadata: {name: words}
spec:
  stages:
  - name: upper
    input: {dataset: words, glob: "/*"}
    command: [sh, -c, 'for f in $MUSTER_INPUT_WORDS/*; do tr a-z A-Z < $f > $MUSTER_OUTPUT/$(basename $f); done; echo did $MUSTER_DATUM']
    parallelism: {max: 2}
  - name: length
    input: {stage: upper, glob: "/*"}
    command: [sh, -c, 'f=$(ls $MUSTER_INPUT_UPPER); wc -c < $MUSTER_INPUT_UPPER/$f > $MUSTER_OUTPUT/$f; : LINE']
  - name: total
    input: {stage: length}
    command: [sh, -c, 'cat "$MUSTER_INPUT_LENGTH"/* | paste -sd+ | bc > "$0"/sum', '$(MUSTER_OUTPUT)']
`

// TestThreeStages takes a pipeline through what becomes of its data.
func TestThreeStages(t *testing.T) {
	r := newRig(t, nil)
	r.apply(strings.ReplaceAll(words, "paste -sd+ | bc", "paste -sd+ -"))
	if p := r.look("words"); p.Status.Phase != v1alpha1.PipelineReady || !strings.Contains(p.Status.Message, "waits for dataset words") {
		t.Fatalf("%s: %s", p.Status.Phase, p.Status.Message)
	}
	first := r.put("words", map[string]string{"a": "one", "b": "three"})
	check := func(what string, want map[string]int64) *v1alpha1.PipelineRun {
		t.Helper()
		run := r.finish("words")
		if run.Status.Phase != v1alpha1.RunSucceeded {
			t.Fatalf("%s: %s: %s", what, run.Status.Phase, run.Status.Message)
		}
		if diff := cmp.Diff(want, computed(run)); diff != "" {
			t.Errorf("%s: computed: %s", what, diff)
		}
		return run
	}
	run := check("the first run", map[string]int64{"upper": 2, "length": 2, "total": 1})
	if diff := cmp.Diff(map[string]string{"sum": "3+5\n"}, r.files("words-total")); diff != "" {
		t.Error(diff)
	}
	if run.Spec.Identity != run.Name || run.Status.Stages[0].Recipe == "" || run.Status.Done != "3/3" {
		t.Errorf("the run says %+v", run.Status)
	}
	r.put("words", map[string]string{"c": "seven"})
	run = check("one more file", map[string]int64{"upper": 1, "length": 1, "total": 1})
	if diff := cmp.Diff(map[string]string{"sum": "3+5+5\n"}, r.files("words-total")); diff != "" {
		t.Error(diff)
	}
	if why := run.Status.Stages[0].Why; !strings.Contains(why, "1 datum new or different") {
		t.Errorf("why: %s", why)
	}
	r.must(r.dataset("words").Reset(r.ctx, "main", first))
	jobs := r.started
	check("back to what was", map[string]int64{"upper": 0, "length": 0, "total": 0})
	if diff := cmp.Diff(map[string]string{"sum": "3+5\n"}, r.files("words-total")); diff != "" || r.started != jobs {
		t.Errorf("%d jobs; %s", r.started-jobs, diff)
	}
	r.apply(strings.ReplaceAll(strings.ReplaceAll(words, "paste -sd+ | bc", "paste -sd+ -"), ": LINE", ": ANOTHER"))
	run = check("a line of the second stage", map[string]int64{"upper": 0, "length": 2, "total": 0})
	if why := run.Status.Stages[1].Why; !strings.Contains(why, "word 2 of the command") {
		t.Errorf("why: %s", why)
	}
	if p := r.look("words"); p.Status.LastRun != run.Name || p.Status.Phase != v1alpha1.PipelineReady {
		t.Errorf("nothing has changed, and another run was started: %+v", p.Status)
	}
}

// TestOldOutputsAreAccepted: what a stage made before its command changed counts where it
// says so, by the recipe that its status and explain tell, and only there.
func TestOldOutputsAreAccepted(t *testing.T) {
	r := newRig(t, nil)
	stage := func(says, accepts string) string {
		return fmt.Sprintf(`
metadata: {name: p}
spec:
  stages:
  - name: make
    input: {dataset: things, glob: "/*"}
    command: [sh, -c, 'echo %s > $MUSTER_OUTPUT/$(ls $MUSTER_INPUT_THINGS)']
    acceptKeys: [%s]
`, says, accepts)
	}
	r.put("things", map[string]string{"a": "1", "b": "2"})
	r.apply(stage("old", ""))
	recipe := r.finish("p").Status.Stages[0].Recipe
	r.put("things", map[string]string{"c": "3"})
	r.apply(stage("new", recipe))
	if got := computed(r.finish("p"))["make"]; got != 1 {
		t.Errorf("%d datums were computed, though those of before count", got)
	}
	if diff := cmp.Diff(map[string]string{"a": "old\n", "b": "old\n", "c": "new\n"}, r.files("p-make")); diff != "" {
		t.Error(diff)
	}
	r.apply(stage("new", ""))
	if got := computed(r.finish("p"))["make"]; got != 2 {
		t.Errorf("%d datums were computed, though those of before count no more", got)
	}
	if diff := cmp.Diff(map[string]string{"a": "new\n", "b": "new\n", "c": "new\n"}, r.files("p-make")); diff != "" {
		t.Error(diff)
	}
}

// TestFailures are the policies for datums that fail.
func TestFailures(t *testing.T) {
	const text = `
metadata: {name: picky}
spec:
  stages:
  - name: one
    input: {dataset: things, glob: "/*"}
    command: [sh, -c, 'cd $MUSTER_INPUT_THINGS; echo looking; grep -v bad * > $MUSTER_OUTPUT/$MUSTER_DATUM']
    tries: 2
    onFailure: POLICY
`
	for _, c := range []struct {
		policy string
		phase  v1alpha1.RunPhase
		says   string
		files  map[string]string
	}{
		{"Fail", v1alpha1.RunFailed, "datum b failed after 2 trys", nil},
		{"Skip", v1alpha1.RunSucceeded, "1 failed and left out", map[string]string{"a": "good\n"}},
		{"Collect", v1alpha1.RunSucceeded, "1 failed and left out", map[string]string{"a": "good\n", ".failed/b/in/things/b": "bad", ".failed/b/log": "looking\nlooking\n"}},
	} {
		t.Run(c.policy, func(t *testing.T) {
			r := newRig(t, nil)
			r.put("things", map[string]string{"a": "good\n", "b": "bad"})
			r.apply(strings.ReplaceAll(text, "POLICY", c.policy))
			run := r.finish("picky")
			if run.Status.Phase != c.phase || !strings.Contains(run.Status.Message, strings.ReplaceAll(c.says, "trys", "tries")) {
				t.Errorf("%s: %s", run.Status.Phase, run.Status.Message)
			}
			if c.files != nil {
				if diff := cmp.Diff(c.files, r.files("picky-one")); diff != "" {
					t.Error(diff)
				}
			}
			log := ""
			for path, text := range r.files(ResultsDataset) {
				if strings.HasPrefix(path, "failed/") && strings.HasSuffix(path, "/log") {
					log = text
				}
			}
			if log != "looking\nlooking\n" {
				t.Errorf("what the datum wrote that failed: %q", log)
			}
		})
	}
}

// TestRefusals are outputs that cannot be kept.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct{ command, says string }{
		"a pipe":           {`mkfifo $MUSTER_OUTPUT/p`, "it wrote p, which is a pipe"},
		"a link out":       {`ln -s /etc/passwd $MUSTER_OUTPUT/l`, "out of the tree"},
		"one file, twice":  {`echo $MUSTER_DATUM > $MUSTER_OUTPUT/same`, "both made \"same\""},
		"no such program":  {`exec nothing-of-this-name`, "exit code 127"},
		"it never ends":    {`sleep 100`, "took longer than 1s (timeout)"},
		"ended by signals": {`kill -9 $$$$`, "ended by a signal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.put("things", map[string]string{"a": "1", "b": "2"})
			r.apply(fmt.Sprintf(`
metadata: {name: wrong}
spec:
  stages:
  - {name: one, input: {dataset: things, glob: "/*"}, command: [sh, -c, '%s'], tries: 1, timeout: 1s}
`, c.command))
			run := r.finish("wrong")
			if run.Status.Phase != v1alpha1.RunFailed || !strings.Contains(run.Status.Message, c.says) {
				t.Errorf("%s: %s", run.Status.Phase, run.Status.Message)
			}
		})
	}
}

// TestNothing is a stage that writes nothing, and one that nothing matches.
func TestNothing(t *testing.T) {
	r := newRig(t, nil)
	r.put("things", map[string]string{"a": "1"})
	r.apply(`
metadata: {name: quiet}
spec:
  stages:
  - {name: silent, input: {dataset: things, glob: "/*"}, command: ["true"]}
  - {name: idle, input: {dataset: things, glob: "/*.png"}, command: ["false"]}
  - {name: after, input: {stage: idle, glob: "/*"}, command: ["false"]}
`)
	run := r.finish("quiet")
	if run.Status.Phase != v1alpha1.RunSucceeded || run.Status.Stages[1].Message != "no file matches its inputs: nothing was made" {
		t.Errorf("%s: %s: %+v", run.Status.Phase, run.Status.Message, run.Status.Stages)
	}
	r.apply(`
metadata: {name: mistyped}
spec:
  stages:
  - {name: one, input: {dataset: things, glob: "/*.jpg"}, command: ["false"]}
`)
	if run := r.finish("mistyped"); run.Status.Message != "no file matches the inputs of stage one: nothing was computed" {
		t.Errorf("where nothing matches: %s: %s", run.Status.Phase, run.Status.Message)
	}
}

// TestStartedAnew is Muster that is killed while a worker computes: what is
// computed meanwhile is found, and nothing is computed twice.
func TestStartedAnew(t *testing.T) {
	before := newRig(t, nil)
	before.put("things", map[string]string{"a": "1", "b": "2", "c": "3"})
	trace := filepath.Join(t.TempDir(), "trace")
	before.apply(fmt.Sprintf(`
metadata: {name: steady}
spec:
  stages:
  - {name: one, input: {dataset: things, glob: "/*"}, command: [sh, -c, 'echo $MUSTER_DATUM >> %s; cp -r $MUSTER_INPUT_THINGS/* $MUSTER_OUTPUT']}
`, trace))
	p := before.look("steady")
	before.hired = func() bool { return false } // nobody works yet
	var run *v1alpha1.PipelineRun
	var outs []string
	for deadline := time.Now().Add(10 * time.Second); len(outs) < 3; {
		run = before.step(p.Status.LastRun)
		outs, _ = filepath.Glob(filepath.Join(before.machine.Foreman.Folder(workName(run, "one")), "*", "out"))
		if time.Now().After(deadline) {
			t.Fatalf("%v are there, of three datums", outs)
		}
		select {
		case <-before.machine.Foreman.Changes():
		case <-time.After(10 * time.Millisecond): // nobody tells of a folder
		}
	}
	before.end()
	// A worker computed one datum, and could tell nobody.
	datum := filepath.Dir(outs[0])
	before.must(errors.Join(
		os.WriteFile(filepath.Join(outs[0], "done-before"), []byte("x"), 0o600),
		os.WriteFile(filepath.Join(datum, "outcome.json"), fmt.Appendf(nil, `{"id":%q,"exit":0}`, filepath.Base(datum)), 0o600)))
	after := newRig(t, before)
	run = after.finish("steady")
	if run.Status.Phase != v1alpha1.RunSucceeded {
		t.Fatal(run.Status.Message)
	}
	lines, err := os.ReadFile(trace)
	after.must(err)
	files := after.files("steady-one")
	if n := strings.Count(string(lines), "\n"); n != 2 || files["done-before"] != "x" || len(files) != 3 {
		t.Errorf("%d datums were computed anew: %q; the output has %v", n, lines, files)
	}
}

// TestTraining is a stage that is a whole job, with a stage that reads it.
func TestTraining(t *testing.T) {
	for name, c := range map[string]struct {
		command string
		phase   v1alpha1.RunPhase
		says    string
	}{
		"succeeds": {`cat $MUSTER_INPUT_THINGS/* > $MUSTER_OUTPUT/model`, v1alpha1.RunSucceeded, "computed"},
		"fails":    {`echo no; exit 3`, v1alpha1.RunFailed, "exit status 3: no"},
		"a pipe":   {`mkfifo $MUSTER_OUTPUT/p`, v1alpha1.RunFailed, "it wrote p, which is a pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.put("things", map[string]string{"a": "1", "b": "2"})
			r.apply(fmt.Sprintf(`
metadata: {name: model}
spec:
  stages:
  - name: train
    input: {dataset: things}
    training: {roles: [{name: worker, command: [sh, -c, '%s']}]}
  - name: use
    input: {cross: [{stage: train}, {dataset: things, glob: "/*"}]}
    command: [sh, -c, 'cat $MUSTER_INPUT_TRAIN/model > $MUSTER_OUTPUT/$(ls $MUSTER_INPUT_THINGS)']
`, c.command))
			run := r.finish("model")
			if run.Status.Phase != c.phase || !strings.Contains(run.Status.Message, c.says) {
				t.Fatalf("%s: %s", run.Status.Phase, run.Status.Message)
			}
			if held := run.Status.Stages[0].GPUSeconds; held == nil || held.Value() != 12 {
				t.Errorf("GPUs were held for %v, and its job says 12 s", held)
			}
			if c.phase == v1alpha1.RunSucceeded {
				if diff := cmp.Diff(map[string]string{"a": "12", "b": "12"}, r.files("model-use")); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// TestIdentity is common to what one commit started.
func TestIdentity(t *testing.T) {
	r := newRig(t, nil)
	r.put("things", map[string]string{"a": "1"})
	r.apply(`
metadata: {name: up}
spec: {stages: [{name: one, input: {dataset: things, glob: "/*"}, command: [sh, -c, 'cp $MUSTER_INPUT_THINGS/* $MUSTER_OUTPUT']}]}
`)
	r.apply(`
metadata: {name: down}
spec: {stages: [{name: two, input: {dataset: up-one, glob: "/*"}, command: ["true"]}]}
`)
	first := r.finish("up")
	second := r.finish("down")
	if second.Spec.Identity != first.Name || second.Status.Phase != v1alpha1.RunSucceeded {
		t.Errorf("the identity of the second is %q, of the first %q: %s", second.Spec.Identity, first.Name, second.Status.Message)
	}
	if _, err := r.dataset(pipeline.StatesDataset("up")).Heads(r.ctx); err != nil {
		t.Error(err)
	}
	heads, err := r.dataset("up-one").Heads(r.ctx)
	if err != nil || len(heads) != 1 || heads[0].Name != (ref.Name{Kind: ref.Branch, Name: "main"}) {
		t.Errorf("%v, %v", heads, err)
	}
}

// TestOneWriterOfABranch: what a pipeline writes no later one may, until the first is gone
// or writes elsewhere.
func TestOneWriterOfABranch(t *testing.T) {
	r := newRig(t, nil)
	r.put("things", map[string]string{"a": "1"})
	pipeline := func(name, branch string) string {
		return fmt.Sprintf(`
metadata: {name: %s}
spec:
  stages:
  - {name: copy, input: {dataset: things}, output: {dataset: copies, branch: %s}, command: [sh, -c, 'cp $MUSTER_INPUT_THINGS/* $MUSTER_OUTPUT']}
`, name, branch)
	}
	r.apply(pipeline("one", "main"))
	r.apply(pipeline("other", "main"))
	if p := r.look("one"); p.Status.Phase == v1alpha1.PipelineInvalid {
		t.Errorf("the first: %s", p.Status.Message)
	}
	p := r.look("other")
	if want := "branch main of dataset copies is written by stage copy of pipeline one"; p.Status.Phase != v1alpha1.PipelineInvalid || !strings.Contains(p.Status.Message, want) {
		t.Errorf("the second: %s: %s", p.Status.Phase, p.Status.Message)
	}
	if p.Status.LastRun != "" {
		t.Errorf("it ran: %s", p.Status.LastRun)
	}
	r.apply(pipeline("other", "candidate"))
	if run := r.finish("other"); run.Status.Phase != v1alpha1.RunSucceeded {
		t.Errorf("on a branch of its own: %s: %s", run.Status.Phase, run.Status.Message)
	}
	r.apply(pipeline("other", "main"))
	if p := r.look("other"); p.Status.Phase != v1alpha1.PipelineInvalid {
		t.Errorf("on the same again: %s: %s", p.Status.Phase, p.Status.Message)
	}
	first := &v1alpha1.Pipeline{}
	r.must(r.server.Get(r.ctx, request("one").NamespacedName, first))
	r.must(r.server.Delete(r.ctx, first))
	if run := r.finish("other"); run.Status.Phase != v1alpha1.RunSucceeded {
		t.Errorf("once the first is gone: %s: %s", run.Status.Phase, run.Status.Message)
	}
}

// TestTold: a program makes folders from the variables about its datum; a group by another value of
// the same paths is computed again, and the ID of a datum stays from run to run.
func TestTold(t *testing.T) {
	r := newRig(t, nil)
	spec := `
metadata: {name: told}
spec:
  stages:
  - name: by-city
    input:
      group:
      - {dataset: visits, glob: "/(*)-C(*).txt", groupBy: "$2"}
      - {dataset: sales, glob: "/(*)-C(*).csv", groupBy: "$2"}
    command: [sh, -c, 'to=$MUSTER_OUTPUT/$MUSTER_DATUM_VISITS_GROUP_BY; mkdir $to; cat $MUSTER_INPUT_VISITS/* $MUSTER_INPUT_SALES/* > $to/all; echo $MUSTER_DATUM_ID > $to/id; echo $MUSTER_DATUM_SALES_PATH $MUSTER_DATUM_SALES_COMMIT $MUSTER_RUN_ID > $to/from']
`
	r.apply(spec)
	r.put("visits", map[string]string{"8-C1.txt": "v1", "9-C2.txt": "v2"})
	sales := r.put("sales", map[string]string{"7-C1.csv": "s1", "7-C2.csv": "s2"})
	first := r.finish("told")
	made := r.files("told-by-city")
	if made["1/all"] != "v1s1" || made["2/all"] != "v2s2" || made["1/id"] == made["2/id"] || len(made["1/id"]) != 65 ||
		made["2/from"] != "7-C2.csv "+sales+" "+first.Spec.Identity+"\n" {
		t.Fatalf("%s: %q", first.Status.Message, made)
	}
	r.put("visits", map[string]string{"3-C3.txt": "v3"})
	if run := r.finish("told"); computed(run)["by-city"] != 1 || r.files("told-by-city")["1/id"] != made["1/id"] {
		t.Errorf("one more city computed %v: %q", computed(run), r.files("told-by-city"))
	}
	r.put("visits", map[string]string{"9-C2.txt": "", "3-C3.txt": ""})
	r.put("sales", map[string]string{"7-C2.csv": "", "7-C1.csv": "", "8-C1.csv": "s1"})
	r.finish("told")
	r.apply(strings.NewReplacer(`"$2"`, `"$1"`, "C(*)", "C*").Replace(spec))
	if run := r.finish("told"); computed(run)["by-city"] != 1 {
		t.Errorf("another value of the same files computed %v", computed(run))
	}
}
