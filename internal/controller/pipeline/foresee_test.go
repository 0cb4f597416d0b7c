package pipeline

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/pipeline"
)

// dry makes a dry run of a pipeline as a text has it, and takes it to its end.
func (r *rig) dry(text string, inputs ...v1alpha1.RunInput) *v1alpha1.PipelineRun {
	r.Helper()
	p := &v1alpha1.Pipeline{}
	r.must(yaml.UnmarshalStrict([]byte(text), p))
	graph, err := pipeline.Parse(p.Name, &p.Spec)
	r.must(err)
	run := &v1alpha1.PipelineRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "would-" + string(r.uid()), UID: r.uid()},
		Spec:       v1alpha1.PipelineRunSpec{Pipeline: p.Name, Identity: "would", DryRun: true, Inputs: inputs},
	}
	for _, stage := range graph.Stages {
		run.Spec.Stages = append(run.Spec.Stages, stage.Spec)
	}
	r.must(r.server.Create(r.ctx, run))
	return r.step(run.Name)
}

// expected is what a dry run says of each stage, in short.
func expected(run *v1alpha1.PipelineRun) map[string]string {
	out := map[string]string{}
	for _, s := range run.Status.Stages {
		out[s.Name] = compute(s.Estimate)
	}
	return out
}

// TestForesee says what a run would compute, and then it computes that.
func TestForesee(t *testing.T) {
	r := newRig(t, nil)
	text := strings.ReplaceAll(words, "paste -sd+ | bc", "paste -sd+ -")
	check := func(what string, run *v1alpha1.PipelineRun, says string, want map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, expected(run)); diff != "" || !strings.Contains(run.Status.Message, says) || run.Status.Phase != v1alpha1.RunSucceeded {
			t.Errorf("%s: %s: %s: %s", what, run.Status.Phase, run.Status.Message, diff)
		}
	}
	none := map[string]string{"upper": "0 datums", "length": "0 datums", "total": "0 datums"}
	check("without any data", r.dry(text), "would compute nothing", none)
	first := r.put("words", map[string]string{"a": "one", "b": "three"})
	check("before the first run", r.dry(text), "before stages that never ran have made it",
		map[string]string{"upper": "2 datums", "length": "nobody knows yet how many datums", "total": "at most 1 datum"})
	r.apply(text)
	r.finish("words")
	check("after it", r.dry(text), "would compute nothing", none)

	r.put("words", map[string]string{"c": "seven"})
	run := r.dry(text)
	check("one more file", run, "would compute at most 5 datums", map[string]string{"upper": "1 datum", "length": "at most 3 datums", "total": "at most 1 datum"})
	if s := run.Status.Stages[0]; s.Why != "1 datum new or different" || s.Estimate.Samples == 0 || s.Datums.Reused != 2 {
		t.Errorf("%+v", s)
	}
	if why := run.Status.Stages[1].Why; why != "what it is given of stage upper is known once that has run" {
		t.Errorf("%s", why)
	}
	check("in place of it the first", r.dry(text, v1alpha1.RunInput{Dataset: "words", Branch: "main", Commit: first}), "would compute nothing", none)
	r.finish("words")

	r.must(r.dataset("words").Reset(r.ctx, "main", first))
	check("back to the first", r.dry(text), "would compute nothing", none)
	if real := r.finish("words"); cmp.Diff(map[string]int64{"upper": 0, "length": 0, "total": 0}, computed(real)) != "" {
		t.Errorf("%v", computed(real))
	}
	run = r.dry(strings.ReplaceAll(text, ": LINE", ": ANOTHER"))
	check("another line", run, "would compute at most 3 datums", map[string]string{"upper": "0 datums", "length": "2 datums", "total": "at most 1 datum"})
	if why := run.Status.Stages[1].Why; !strings.Contains(why, "word 2 of the command") {
		t.Errorf("%s", why)
	}
	if p := r.look("words"); p.Status.Phase != v1alpha1.PipelineReady {
		t.Errorf("asking has changed something: %s: %s", p.Status.Phase, p.Status.Message)
	}
}

// TestForeseeTrouble is what a run could not do either.
func TestForeseeTrouble(t *testing.T) {
	r := newRig(t, nil)
	r.put("things", map[string]string{"a": "1"})
	run := r.dry(copies("one", ""), v1alpha1.RunInput{Dataset: "things", Branch: "main", Commit: strings.Repeat("ab", 32)})
	if run.Status.Phase != v1alpha1.RunFailed || !strings.Contains(run.Status.Message, "commit abababab of things@main, which it is to read, is not there") {
		t.Errorf("%s: %s", run.Status.Phase, run.Status.Message)
	}
	run = r.dry(strings.Replace(copies("one", ""), "command: [sh, -c,", "environment: {requirements: numpy}, command: [sh, -c,", 1))
	if run.Status.Phase != v1alpha1.RunFailed || !strings.Contains(run.Status.Message, "there are no environments here") {
		t.Errorf("%s: %s", run.Status.Phase, run.Status.Message)
	}
	for _, name := range []string{"one-copy", pipeline.StatesDataset("one"), ResultsDataset} {
		if err := r.server.Get(r.ctx, client.ObjectKey{Namespace: space, Name: name}, &v1alpha1.Dataset{}); !apierrors.IsNotFound(err) {
			t.Errorf("dataset %s was made by asking: %v", name, err)
		}
	}
	// What was asked is forgotten.
	r.runs.deps.Now = func() time.Time { return time.Now().Add(time.Hour) }
	_, err := r.runs.Reconcile(r.ctx, request(run.Name))
	r.must(err)
	if err := r.server.Get(r.ctx, client.ObjectKeyFromObject(run), run); !apierrors.IsNotFound(err) {
		t.Errorf("the dry run is still there: %v", err)
	}
}
