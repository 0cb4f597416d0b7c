package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/pipeline"
)

// TestCron has times come: of those that passed while nobody looked the last one counts,
// no time counts twice, and the next ones come beside it, or in its place.
func TestCron(t *testing.T) {
	for _, overwrite := range []bool{false, true} {
		t.Run(fmt.Sprintf("overwrite %v", overwrite), func(t *testing.T) {
			r := newRig(t, nil)
			r.apply(fmt.Sprintf(`
metadata: {name: hourly}
spec:
  stages:
  - {name: tell, input: {name: tick, cron: {schedule: "0 * * * *", overwrite: %v}, glob: "/*"}, command: [sh, -c, 'cat $MUSTER_INPUT_TICK/* > $MUSTER_OUTPUT/$MUSTER_DATUM']}
`, overwrite))
			now := time.Date(2030, 2, 3, 4, 30, 0, 0, time.UTC)
			r.pipelines.deps.Now = func() time.Time { return now }
			p := &v1alpha1.Pipeline{}
			r.must(r.server.Get(r.ctx, request("hourly").NamespacedName, p))
			p.CreationTimestamp = metav1.NewTime(now.Add(-10 * time.Minute))
			r.must(r.server.Update(r.ctx, p))
			graph, err := pipeline.Parse(p.Name, &p.Spec)
			r.must(err)
			times := sourceHead(graph, graph.Stages[0], graph.Stages[0].Sources[0]).dataset
			there := func() []string { return slices.Sorted(maps.Keys(r.files(times))) }
			again, err := r.pipelines.Reconcile(r.ctx, request("hourly"))
			if err != nil || again.RequeueAfter != 30*time.Minute {
				t.Errorf("before the first time it comes again after %s: %v", again.RequeueAfter, err)
			}
			if d, err := r.machine.dataset(r.ctx, r.server, space, times); err != nil {
				t.Error(err)
			} else if _, err := d.At(r.ctx, "main"); err == nil {
				t.Error("a time came before it was there")
			}
			now = time.Date(2030, 2, 3, 8, 15, 0, 0, time.UTC)
			r.look("hourly") // the time comes, and then it is a commit like others
			r.finish("hourly")
			if d := cmp.Diff([]string{"2030-02-03T08:00:00Z"}, there()); d != "" {
				t.Errorf("four times passed: %s", d)
			}
			want := map[string]string{"2030-02-03T08:00:00Z": "2030-02-03T08:00:00Z\n"}
			if d := cmp.Diff(want, r.files("hourly-tell")); d != "" {
				t.Error(d)
			}
			before := r.look("hourly").Status.LastRun
			now = now.Add(time.Hour)
			r.look("hourly")
			r.finish("hourly")
			if !overwrite {
				want["2030-02-03T09:00:00Z"] = "2030-02-03T09:00:00Z\n"
			} else {
				want = map[string]string{"2030-02-03T09:00:00Z": "2030-02-03T09:00:00Z\n"}
			}
			if d := cmp.Diff(want, r.files("hourly-tell")); d != "" {
				t.Error(d)
			}
			if after := r.look("hourly").Status.LastRun; after == before {
				t.Errorf("another time started no other run than %s", before)
			}
		})
	}
}

// TestEvery has a pipeline be looked at between the times of a schedule that counts from
// the one before: the next one comes no later for it.
func TestEvery(t *testing.T) {
	r := newRig(t, nil)
	r.apply(`
metadata: {name: often}
spec:
  stages:
  - {name: tell, input: {name: tick, cron: {schedule: "@every 1h"}, glob: "/*"}, command: [sh, -c, 'cp $MUSTER_INPUT_TICK/* $MUSTER_OUTPUT']}
`)
	p := &v1alpha1.Pipeline{}
	r.must(r.server.Get(r.ctx, request("often").NamespacedName, p))
	graph, err := pipeline.Parse(p.Name, &p.Spec)
	r.must(err)
	expect := func(since time.Time) {
		t.Helper()
		for _, passed := range []time.Duration{0, 20 * time.Minute, 50 * time.Minute} {
			r.pipelines.deps.Now = func() time.Time { return since.Add(passed) }
			again, err := r.pipelines.Reconcile(r.ctx, request("often"))
			if want := time.Hour - passed; err != nil || again.RequeueAfter != want {
				t.Errorf("after %s it comes again after %s, want %s: %v", passed, again.RequeueAfter, want, err)
			}
		}
	}
	made := time.Now().Truncate(time.Second).Add(-time.Hour)
	p.CreationTimestamp = metav1.NewTime(made)
	r.must(r.server.Update(r.ctx, p))
	expect(made)
	r.pipelines.deps.Now = time.Now
	r.look("often") // the first time comes
	last, err := r.dataset(sourceHead(graph, graph.Stages[0], graph.Stages[0].Sources[0]).dataset).Resolve(r.ctx, "main")
	r.must(err)
	expect(last.Time.Truncate(time.Second))
}
