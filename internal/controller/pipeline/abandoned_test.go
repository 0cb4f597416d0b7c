package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/dataset/expiry"
	"github.com/muster-dev/muster/internal/pipeline"
)

// kept is the retention time of results in these tests, in days.
const kept = 30

// sweptAfter sweeps by a client so many days from now.
func (r *rig) sweptAfter(days int, server client.Client) (expiry.Report, error) {
	return expiry.Sweep(r.ctx, expiry.Options{Client: server, Store: r.machine.Store, Keep: kept * 24 * time.Hour, At: time.Now().AddDate(0, 0, days)})
}

// remove deletes a pipeline, and its runs as the API server would.
func (r *rig) remove(name string) {
	r.Helper()
	r.must(r.server.Delete(r.ctx, &v1alpha1.Pipeline{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name}}))
	runs := &v1alpha1.PipelineRunList{}
	r.must(r.server.List(r.ctx, runs))
	for i := range runs.Items {
		if runs.Items[i].Spec.Pipeline == name {
			r.must(r.server.Delete(r.ctx, &runs.Items[i]))
		}
	}
	r.jobs = map[string]context.CancelFunc{}
}

// left describes the data of a pipeline: the number of results, and its states, abandoned or not.
func (r *rig) left(name string) string {
	r.Helper()
	count := 0
	for path := range r.files(ResultsDataset) {
		if strings.HasSuffix(path, "/"+pipeline.RecordFile) {
			count++
		}
	}
	d := &v1alpha1.Dataset{}
	err := r.server.Get(r.ctx, client.ObjectKey{Namespace: space, Name: pipeline.StatesDataset(name)}, d)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprint(count, " results")
	case err != nil:
		r.Fatal(err)
	case d.Annotations[v1alpha1.AnnotationAbandoned] != "":
		return fmt.Sprint(count, " results, abandoned states")
	}
	return fmt.Sprint(count, " results, states")
}

// TestAbandonedStates: of a pipeline that is deleted, results and states stay as long as results
// are kept, counted from when that was noticed, and not from a last run long ago. A pipeline of the
// name that is made meanwhile takes the results; one that is made later computes all again.
func TestAbandonedStates(t *testing.T) {
	r := newRig(t, nil)
	at := func(days int, want string) {
		t.Helper()
		if _, err := r.sweptAfter(days, r.server); err != nil {
			t.Fatal(err)
		}
		if got := r.left("one"); got != want {
			t.Errorf("after %d days: %s; want %s", days, got, want)
		}
	}
	r.put("things", map[string]string{"a": "1", "b": "2"})
	r.apply(copies("one", ""))
	r.succeed("one", 2)
	at(100, "2 results, states")
	r.remove("one")
	at(101, "2 results, abandoned states")
	at(130, "2 results, abandoned states")
	r.apply(copies("one", ""))
	r.succeed("one", 0)
	at(150, "2 results, states")
	r.remove("one")
	at(200, "2 results, abandoned states")
	at(229, "2 results, abandoned states")
	at(230, "0 results")
	r.apply(copies("one", ""))
	r.succeed("one", 2)
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "2"}, r.files("one-copy")); diff != "" {
		t.Error(diff)
	}
	if got := r.left("one"); got != "2 results, states" {
		t.Errorf("made again: %s", got)
	}
}

// TestStatesThatStay: states of a pipeline that is gone stay if one of them has a tag, or if the
// dataset has other data, and so does a dataset that only has such a name. A dry run removes and
// notes nothing.
func TestStatesThatStay(t *testing.T) {
	states := client.ObjectKey{Namespace: space, Name: pipeline.StatesDataset("one")}
	for name, c := range map[string]struct {
		does func(r *rig)
		dry  bool
		want string
	}{
		"nothing":   {func(*rig) {}, false, "gone"},
		"a dry run": {func(*rig) {}, true, "there"},
		"a tag": {func(r *rig) {
			d := &v1alpha1.Dataset{}
			r.must(r.server.Get(r.ctx, states, d))
			d.Spec.Tags = append(d.Spec.Tags, v1alpha1.DatasetTag{Name: "mine", Commit: d.Spec.Branches[0].Commit})
			r.must(r.server.Update(r.ctx, d))
		}, false, "there"},
		"something else": {func(r *rig) { r.put(states.Name, map[string]string{"mine": "1"}) }, false, "there"},
		"another's": {func(r *rig) {
			d := &v1alpha1.Dataset{}
			r.must(r.server.Get(r.ctx, states, d))
			d.Labels = nil
			r.must(r.server.Update(r.ctx, d))
		}, false, "there"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.put("things", map[string]string{"a": "1"})
			r.apply(copies("one", ""))
			r.succeed("one", 1)
			r.remove("one")
			c.does(r)
			report, err := expiry.Sweep(r.ctx, expiry.Options{Client: r.server, Store: r.machine.Store, At: time.Now(), DryRun: c.dry})
			r.must(err)
			if want := map[bool]int{true: 1}[c.dry || c.want == "gone"]; report.States != want {
				t.Errorf("it reports %d, want %d", report.States, want)
			}
			d := &v1alpha1.Dataset{}
			err = r.server.Get(r.ctx, states, d)
			if gone := apierrors.IsNotFound(err); gone != (c.want == "gone") || c.dry && d.Annotations != nil {
				t.Errorf("%v, %v; want it %s", err, d.Annotations, c.want)
			}
		})
	}
}

// writes is the server by a client whose write number at is refused, or done but reported as
// lost. It counts the writes.
func (r *rig) writes(at int, done bool, count *int) client.Client {
	watched, ok := r.server.(client.WithWatch)
	if !ok {
		r.Fatal("the fake client cannot be watched")
	}
	lost := errors.New("the connection is gone")
	write := func(do func() error) error {
		*count++
		if *count != at {
			return do()
		}
		if done {
			return errors.Join(do(), lost)
		}
		return lost
	}
	return interceptor.NewClient(watched, interceptor.Funcs{
		Patch: func(ctx context.Context, to client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return write(func() error { return to.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return write(func() error { return to.Delete(ctx, o, opts...) })
		},
	})
}

// TestAbandonedStatesCrash: sweeps that end at any of their writes lose no result that is to be
// kept, and the sweeps after them come to the same end.
func TestAbandonedStatesCrash(t *testing.T) {
	days := []int{101, 130, 131, 170}
	want := []string{"2 results, abandoned states", "2 results, abandoned states", "2 results", "0 results"}
	total := 0
	for at := 0; at == 0 || at <= total; at++ {
		for _, done := range []bool{false, true} {
			t.Run(fmt.Sprint("write ", at, " done ", done), func(t *testing.T) {
				r := newRig(t, nil)
				r.put("things", map[string]string{"a": "1", "b": "2"})
				r.apply(copies("one", ""))
				r.succeed("one", 2)
				_, err := r.sweptAfter(100, r.server)
				r.must(err)
				r.remove("one")
				count := 0
				server := r.writes(at, done, &count)
				for i, day := range days {
					if _, err := r.sweptAfter(day, server); err != nil {
						if left := r.left("one"); !slices.Contains(want[max(i-1, 0):i+1], left) && left != "2 results, states" {
							t.Errorf("the sweep of day %d failed: %s", day, left)
						}
						_, err = r.sweptAfter(day, server)
						r.must(err)
					}
					if left := r.left("one"); left != want[i] {
						t.Errorf("after %d days: %s, want %s", day, left, want[i])
					}
				}
				if at == 0 {
					total = count
				}
			})
		}
	}
	if total < 4 {
		t.Errorf("%d writes: the note, two of results and the removal are expected", total)
	}
}

// TestMadeAgainWhileStatesGo: a pipeline is made again between the last look of a sweep by
// another process and its removal of the states. A run that has planned with them plans again;
// states that it has written meanwhile stay.
func TestMadeAgainWhileStatesGo(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(r *rig)
		removed   int
	}{
		"it has planned": {func(r *rig) {
			r.hired = func() bool { return false }
			r.step(r.look("one").Status.LastRun)
		}, 1},
		"it has run": {func(r *rig) { r.succeed("one", 1) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.put("things", map[string]string{"a": "1", "b": "2"})
			r.apply(copies("one", ""))
			r.succeed("one", 2)
			r.remove("one")
			_, err := r.sweptAfter(1, r.server)
			r.must(err)
			watched, ok := r.server.(client.WithWatch)
			if !ok {
				t.Fatal("the fake client cannot be watched")
			}
			report, err := r.sweptAfter(100, interceptor.NewClient(watched, interceptor.Funcs{
				Delete: func(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
					r.put("things", map[string]string{"c": "3"})
					r.apply(copies("one", ""))
					c.meanwhile(r)
					return to.Delete(ctx, o, opts...)
				},
			}))
			r.must(err)
			if report.States != c.removed {
				t.Errorf("%d datasets of states are removed, want %d", report.States, c.removed)
			}
			r.hired = nil
			r.put("things", map[string]string{"d": "4"})
			run := r.finish("one")
			for range 3 { // one run for each commit
				if r.look("one"); run.Status.Phase != v1alpha1.RunSucceeded {
					t.Fatalf("%s: %s", run.Status.Phase, run.Status.Message)
				}
				run = r.finish("one")
			}
			if diff := cmp.Diff(map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}, r.files("one-copy")); diff != "" {
				t.Error(diff)
			}
			heads, err := r.dataset(pipeline.StatesDataset("one")).Heads(r.ctx)
			if err != nil || len(heads) != 1 {
				t.Errorf("states: %v, %v", heads, err)
			}
		})
	}
}
