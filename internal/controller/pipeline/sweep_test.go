package pipeline

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/dataset/expiry"
	"github.com/muster-dev/muster/internal/pipeline"
)

// copies is a pipeline of a name with one stage that copies each file.
func copies(name, more string) string {
	return fmt.Sprintf(`
metadata: {name: %s}
spec:
  stages:
  - {name: copy, input: {dataset: things, glob: "/*"}, command: [sh, -c, 'cp $MUSTER_INPUT_THINGS/* $MUSTER_OUTPUT']}
  %s
`, name, more)
}

// succeed takes the pipeline's run to its end, which has to be good.
func (r *rig) succeed(name string, computes int64) *v1alpha1.PipelineRun {
	r.Helper()
	run := r.finish(name)
	if run.Status.Phase != v1alpha1.RunSucceeded || run.Status.Stages[0].Datums.Computed != computes {
		r.Fatalf("%s: %s: %s: %+v", name, run.Status.Phase, run.Status.Message, run.Status.Stages[0].Datums)
	}
	return run
}

// TestSweep removes what neither of two pipelines has, and nothing while a run may
// take it.
func TestSweep(t *testing.T) {
	r := newRig(t, nil)
	sweep := func(o expiry.Options, days int) expiry.Report {
		t.Helper()
		o.Client, o.Store, o.Keep, o.At = r.server, r.machine.Store, 30*24*time.Hour, time.Now().AddDate(0, 0, days)
		report, err := expiry.Sweep(r.ctx, o)
		r.must(err)
		return report
	}
	r.put("things", map[string]string{"a": "1", "b": "2"})
	r.apply(copies("one", ""))
	r.apply(copies("two", ""))
	r.succeed("one", 2)
	r.succeed("two", 0)
	if report := sweep(expiry.Options{}, 100); report.Any() {
		t.Errorf("what outputs have went: %+v", report)
	}
	r.put("things", map[string]string{"b": ""})
	r.succeed("one", 0)
	r.look("two") // its run is on its way
	if diff := cmp.Diff(expiry.Report{Busy: []string{space}}, sweep(expiry.Options{}, 100)); diff != "" {
		t.Error(diff)
	}
	if report := sweep(expiry.Options{Hold: r.runs.hold}, 100); report.Any() {
		t.Errorf("the state of the other has it, and it went: %+v", report)
	}
	r.succeed("two", 0)
	want := expiry.Report{Swept: pipeline.Swept{Results: 1}}
	if diff := cmp.Diff(want, sweep(expiry.Options{DryRun: true}, 250)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, sweep(expiry.Options{Hold: r.runs.hold}, 250)); diff != "" {
		t.Error(diff)
	}
	if report := sweep(expiry.Options{}, 250); report.Any() {
		t.Errorf("something was left: %+v", report)
	}
	// Of pipelines that are gone results stay as long as any that nobody uses.
	for _, name := range []string{"one", "two"} {
		r.must(r.server.Delete(r.ctx, &v1alpha1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name}}))
	}
	if report := sweep(expiry.Options{}, 20); report.Any() {
		t.Errorf("after 20 days: %+v", report)
	}
	want.States = 2
	if diff := cmp.Diff(want, sweep(expiry.Options{}, 400)); diff != "" {
		t.Error(diff)
	}
}

// TestUpkeep sweeps by itself, and does not take from a run what it has taken.
func TestUpkeep(t *testing.T) {
	r := newRig(t, nil)
	r.put("things", map[string]string{"a": "1"})
	r.apply(copies("one", ""))
	r.succeed("one", 1)
	r.put("things", map[string]string{"a": "2"})
	r.succeed("one", 1)
	alarm, heard := make(chan time.Time), make(chan expiry.Report, 1)
	r.runs.deps.After = func(time.Duration) <-chan time.Time { return alarm }
	r.runs.deps.Now = func() time.Time { return time.Now().AddDate(0, 0, 60) }
	r.machine.KeepResults = 30 * 24 * time.Hour
	r.machine.Swept = func(report expiry.Report) { heard <- report }
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.runs.upkeep(ctx)
	}()
	alarm <- time.Now()
	if report := <-heard; report.Results != 1 {
		t.Errorf("%+v", report)
	}
	cancel()
	<-done
}

// TestTakenResultGoes: a result that a plan has taken is removed by somebody who
// could not know; the stage is planned again, and computes it.
func TestTakenResultGoes(t *testing.T) {
	r := newRig(t, nil)
	r.put("things", map[string]string{"a": "1"})
	r.apply(copies("one", ""))
	r.succeed("one", 1)
	r.put("things", map[string]string{"a": "2"})
	r.succeed("one", 1)
	r.put("things", map[string]string{"a": "1", "b": "3"})
	r.hired = func() bool { return false } // nobody computes b yet
	run := r.step(r.look("one").Status.LastRun)
	if run.Status.Stages[0].Datums.Reused != 1 {
		t.Fatalf("%+v", run.Status.Stages[0])
	}
	_, err := expiry.Sweep(r.ctx, expiry.Options{
		Client: r.server, Store: r.machine.Store, Keep: time.Hour, At: time.Now().AddDate(0, 0, 60),
		Hold: func(string) (needed map[digest.ID]bool, letGo func()) { return nil, func() {} },
	})
	r.must(err)
	r.hired = nil
	r.jobs = map[string]context.CancelFunc{}
	r.succeed("one", 2) // b, and a when it was planned again
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "3"}, r.files("one-copy")); diff != "" {
		t.Error(diff)
	}
}

// TestMadeAgain: a pipeline is deleted, its results go, and it is made again: what an
// output of before would have been told from is gone, so all of it is computed.
func TestMadeAgain(t *testing.T) {
	r := newRig(t, nil)
	r.put("things", map[string]string{"a": "1", "b": "2", "c": "3"})
	r.apply(copies("one", ""))
	r.succeed("one", 3)
	r.must(r.server.Delete(r.ctx, &v1alpha1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "one"}}))
	for _, days := range []int{0, 60, 120} {
		_, err := expiry.Sweep(r.ctx, expiry.Options{
			Client: r.server, Store: r.machine.Store, Keep: time.Hour, At: time.Now().AddDate(0, 0, days),
			Hold: func(string) (needed map[digest.ID]bool, letGo func()) { return nil, func() {} },
		})
		r.must(err)
	}
	r.put("things", map[string]string{"a": "9"})
	r.apply(copies("one", ""))
	r.jobs = map[string]context.CancelFunc{}
	r.succeed("one", 3) // a before it was noticed, b and c after that
	if diff := cmp.Diff(map[string]string{"a": "9", "b": "2", "c": "3"}, r.files("one-copy")); diff != "" {
		t.Error(diff)
	}
}

// TestHistory keeps as many runs as the pipeline says.
func TestHistory(t *testing.T) {
	r := newRig(t, nil)
	r.apply(strings.Replace(copies("one", ""), "spec:", "spec:\n  historyLimit: 2", 1))
	var last string
	for i := range 4 {
		r.put("things", map[string]string{"a": fmt.Sprint("v", i)})
		last = r.succeed("one", 1).Name
	}
	r.look("one")
	list := &v1alpha1.PipelineRunList{}
	r.must(r.server.List(r.ctx, list, client.InNamespace(space)))
	names := map[string]bool{}
	for i := range list.Items {
		names[list.Items[i].Name] = true
	}
	if len(names) != 2 || !names[last] {
		t.Errorf("the runs that are left: %v", names)
	}
	report, err := expiry.Sweep(r.ctx, expiry.Options{Client: r.server, Store: r.machine.Store, Keep: 48 * time.Hour, At: time.Now()})
	r.must(err)
	if report.Results != 0 || report.Datums != 2 {
		t.Errorf("of two runs that are gone: %+v", report)
	}
}

// TestForgotten are the oldest runs, however they are listed.
func TestForgotten(t *testing.T) {
	limit := int32(2)
	s := &seen{pipeline: &v1alpha1.Pipeline{Spec: v1alpha1.PipelineSpec{HistoryLimit: &limit}}}
	for _, minute := range []int{3, 1, 4, 2} {
		run := &v1alpha1.PipelineRun{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("r", minute)}}
		run.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC))
		s.ended = append(s.ended, run)
	}
	var names []string
	for _, run := range s.forgotten() {
		names = append(names, run.Name)
	}
	if diff := cmp.Diff([]string{"r1", "r2"}, names); diff != "" {
		t.Error(diff)
	}
}
