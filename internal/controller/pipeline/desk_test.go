package pipeline

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/digest"
)

// tracing is a pipeline of a name that notes what it computes in a file, and fails
// as long as another one is there.
func tracing(name, dataset, trace string) string {
	return fmt.Sprintf(`
metadata: {name: %s}
spec:
  stages:
  - {name: copy, input: {name: in, dataset: %s, glob: "/*"}, tries: 1, command: [sh, -c, 'echo $MUSTER_DATUM >> %s; test ! -e %[3]s.fail && cp $MUSTER_INPUT_IN/* $MUSTER_OUTPUT']}
`, name, dataset, trace)
}

// traced are the datums that were computed, in order of names.
func traced(t *testing.T, trace string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(trace)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	out := map[string]int{}
	for line := range strings.Lines(string(text)) {
		out[strings.TrimSpace(line)]++
	}
	return out
}

// TestTogether has two pipelines want the same at once: it is computed once. What
// only one of them wants does not wait.
func TestTogether(t *testing.T) {
	r := newRig(t, nil)
	trace := filepath.Join(t.TempDir(), "trace")
	r.put("left", map[string]string{"a": "1", "b": "2"})
	r.put("right", map[string]string{"b": "2", "c": "3"})
	r.apply(tracing("one", "left", trace))
	r.apply(tracing("two", "right", trace))
	r.hired = func() bool { return false }
	first := r.step(r.look("one").Status.LastRun)
	r.hired = nil
	second := r.finishUnless("two", func(run *v1alpha1.PipelineRun) bool { return strings.Contains(run.Status.Message, "waits for it") })
	if says := "stage copy: 1 datum is the same as what stage copy of run " + first.Name + " computes: waits for it"; second.Status.Message != says {
		t.Fatalf("%s: %s", second.Status.Phase, second.Status.Message)
	}
	if diff := cmp.Diff(map[string]int{"c": 1}, traced(t, trace)); diff != "" {
		t.Error(diff)
	}
	delete(r.jobs, jobName(first, "copy")) // now its member starts
	if run := r.finish("one"); run.Status.Stages[0].Datums.Computed != 2 {
		t.Errorf("%+v", run.Status)
	}
	run := r.finish("two")
	want := v1alpha1.DatumCounts{Total: 2, Computed: 1, Reused: 1}
	if diff := cmp.Diff(want, run.Status.Stages[0].Datums); diff != "" || run.Status.Phase != v1alpha1.RunSucceeded {
		t.Errorf("%s: %s", run.Status.Message, diff)
	}
	if diff := cmp.Diff(map[string]string{"b": "2", "c": "3"}, r.files("two-copy")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{"a": 1, "b": 1, "c": 1}, traced(t, trace)); diff != "" {
		t.Error(diff)
	}
	if len(r.runs.desk.holders)+len(r.runs.desk.claims)+len(r.runs.desk.waiting) != 0 {
		t.Errorf("the desk still has %v", r.runs.desk.holders)
	}
}

// TestTogetherNoMore: the one that computes fails, is cancelled or deleted, and the
// one that waits computes it itself.
func TestTogetherNoMore(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(r *rig, first *v1alpha1.PipelineRun, trace string)
		twice int
	}{
		"fails": {func(r *rig, first *v1alpha1.PipelineRun, trace string) {
			r.must(os.WriteFile(trace+".fail", nil, 0o600))
			delete(r.jobs, jobName(first, "copy"))
			if run := r.finish("one"); run.Status.Phase != v1alpha1.RunFailed {
				r.Fatal(run.Status.Message)
			}
			r.must(os.Remove(trace + ".fail"))
		}, 2},
		"is cancelled": {func(r *rig, first *v1alpha1.PipelineRun, _ string) {
			first.Spec.Cancel = true
			r.must(r.server.Update(r.ctx, first))
			r.finish("one")
		}, 1},
		"is deleted": {func(r *rig, first *v1alpha1.PipelineRun, _ string) {
			r.must(r.server.Delete(r.ctx, first))
			_, err := r.runs.Reconcile(r.ctx, request(first.Name))
			r.must(err)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			trace := filepath.Join(t.TempDir(), "trace")
			r.put("left", map[string]string{"a": "1"})
			r.apply(tracing("one", "left", trace))
			r.apply(tracing("two", "left", trace))
			r.hired = func() bool { return false }
			first := r.finishUnless("one", func(run *v1alpha1.PipelineRun) bool { return run.Status.Stages[0].Job != "" })
			r.hired = nil
			second := r.step(r.look("two").Status.LastRun)
			if !strings.Contains(second.Status.Message, "waits for it") {
				t.Fatal(second.Status.Message)
			}
			c.end(r, first, trace)
			if run := r.finish("two"); run.Status.Phase != v1alpha1.RunSucceeded || run.Status.Stages[0].Datums.Computed != 1 {
				t.Errorf("%+v", run.Status)
			}
			if n := traced(t, trace)["a"]; n != c.twice {
				t.Errorf("it was computed %d times", n)
			}
		})
	}
}

// TestDesk is who gets what.
func TestDesk(t *testing.T) {
	d := newDesk()
	k := func(n byte) digest.ID { return digest.ID{n} }
	keys := func(n ...byte) (out []digest.ID) {
		for _, i := range n {
			out = append(out, k(i))
		}
		return out
	}
	check := func(work string, want, mine, others []digest.ID, at string) {
		t.Helper()
		m, o, where := d.take("ns", work, "label of "+work, want)
		if cmp.Diff(mine, m) != "" || cmp.Diff(others, o) != "" || where != at {
			t.Errorf("%s gets %v, waits for %v of %q", work, m, o, where)
		}
	}
	check("a", keys(1, 2), keys(1, 2), nil, "")
	check("a", keys(2), keys(2), nil, "")
	check("b", keys(2, 3), keys(3), keys(2), "label of a")
	if m, _, _ := d.take("elsewhere", "c", "", keys(2)); len(m) != 1 {
		t.Error("another namespace has results of its own")
	}
	d.done("ns", "a", keys(1))
	check("b", keys(1, 2), keys(1), keys(2), "label of a")
	d.done("ns", "b", keys(2)) // which it does not have
	check("b", keys(2), nil, keys(2), "label of a")
	d.leave("a")
	check("b", keys(2), keys(2), nil, "")
	if len(d.waiting["a"]) != 0 || len(d.claims["a"]) != 0 {
		t.Errorf("%v %v", d.waiting, d.claims)
	}
}
