package gang

import (
	"context"
	"testing"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/news"
)

// statusWrites counts the writes of gangs' statuses from now on.
func (w *world) statusWrites() *int {
	n := 0
	w.ctl.options.Client = interceptor.NewClient(w.ctl.options.Client.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			n++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	return &n
}

// live runs a gang until it has succeeded.
func (w *world) live() {
	w.t.Helper()
	w.until("all members run", func() bool { return w.running() == 3 })
	w.exits["resnet-worker-0"], w.exits["resnet-worker-1"] = succeeds, succeeds
	w.phase(v1alpha1.GangSucceeded)
	w.holdsNothing()
}

// Where there is much news, a gang that lives for a moment costs what is owed of
// its status: which members are done, how it ended, and that nothing is held.
func TestWhatIsOwedIsWrittenAtOnceAndNewsWithIt(t *testing.T) {
	for name, tt := range map[string]struct {
		fault fault
		most  int
	}{"little news": {fault{}, 6}, "much news": {fault{busy: true}, 3}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tt.fault)
			n := w.statusWrites()
			w.must(w.api.Create(t.Context(), testGang()))
			w.live()
			g := w.gang(t.Context())
			if *n > tt.most {
				t.Errorf("%d writes of the status, at most %d are due", *n, tt.most)
			}
			if len(w.ctl.unsaid) > 0 {
				t.Errorf("news is left: %+v", w.ctl.unsaid)
			}
			if g.Status.AllStartedTime != nil || g.Status.RanSeconds == 0 || g.Status.StartTime == nil {
				t.Errorf("what was never written by itself is lost: %+v", g.Status)
			}
		})
	}
}

// News waits for its turn, and not for longer than it may.
func TestNewsWaitsForItsTurn(t *testing.T) {
	w := newWorld(t, fault{})
	w.ctl.news = rate.NewLimiter(1, 1)
	w.must(w.api.Create(t.Context(), testGang()))
	g := w.gang(t.Context())
	starting := func(s *v1alpha1.GangStatus) { s.Phase, s.Attempt = v1alpha1.GangStarting, 1 }
	wait := func(name string, after time.Duration, change func(*v1alpha1.GangStatus)) time.Duration {
		gang := g.DeepCopy()
		gang.Name = name
		status := gang.Status.DeepCopy()
		change(status)
		return w.ctl.early(observed{gang: gang, now: w.clock.Add(after), pods: []*corev1.Pod{{}}}, status)
	}
	if d := wait("first", 0, starting); d > 0 {
		t.Errorf("the first waits for %s", d)
	}
	if d := wait("second", 0, starting); d != time.Second {
		t.Errorf("the second waits for %s, want 1s", d)
	}
	if d := wait("second", time.Second/2, starting); d != time.Second/2 {
		t.Errorf("half a second later it waits for %s", d)
	}
	runs := func(s *v1alpha1.GangStatus) {
		s.Phase, s.AllStartedTime = v1alpha1.GangRunning, &metav1.MicroTime{Time: w.clock}
	}
	w.ctl.news = rate.NewLimiter(0, 0)
	wait("late", 0, starting)
	if d := wait("late", time.Second, runs); d != runsWithin {
		t.Errorf("that all run waits for %s, want %s", d, runsWithin)
	}
	if d := wait("late", 2*time.Second, runs); d != runsWithin-time.Second {
		t.Errorf("a second later it waits for %s", d)
	}
	w.ctl.news = rate.NewLimiter(1, 1)
	if d := wait("second", time.Second/2, func(s *v1alpha1.GangStatus) { s.Outcome, s.Phase = v1alpha1.GangFailed, v1alpha1.GangDraining }); d > 0 {
		t.Errorf("how it ended waits for %s", d)
	}
	for range 20 {
		wait("third", 0, starting)
	}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		if d := wait(name, 0, starting); d <= 0 || d > news.Within {
			t.Errorf("%s waits for %s", name, d)
		}
	}
}

// What the controller wrote itself it knows, also while the cache lags behind.
func TestOwnWritesAreNotReadAgain(t *testing.T) {
	w := newWorld(t, fault{})
	w.must(w.api.Create(t.Context(), testGang()))
	stale := w.gang(t.Context())
	_, err := w.ctl.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key})
	w.must(err)
	written := w.gang(t.Context())
	if got := w.ctl.newer(stale); got.ResourceVersion != written.ResourceVersion {
		t.Errorf("version %s, want %s", got.ResourceVersion, written.ResourceVersion)
	}
	if got := w.ctl.newer(written); got != written || w.ctl.written[w.key].gang != nil {
		t.Error("what the cache shows is kept a second time")
	}
}
