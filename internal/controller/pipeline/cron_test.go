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
