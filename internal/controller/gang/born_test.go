package gang

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// What the cache does not show yet is not made again, but is looked for when
// it takes long.
func TestACacheThatLagsBehind(t *testing.T) {
	w := newWorld(t, fault{})
	w.blind = true
	w.must(w.api.Create(t.Context(), testGang()))
	w.plan(t.Context())
	look := func() time.Duration {
		t.Helper()
		result, err := w.ctl.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key})
		w.must(err)
		return result.RequeueAfter
	}
	for len(w.pods(t.Context())) == 0 {
		look()
	}
	made := w.count
	for range 3 {
		if wait := look(); wait <= 0 || wait > showing {
			t.Errorf("looked again after %s, want at most %s", wait, showing)
		}
	}
	if w.count != made {
		t.Errorf("%d writes although all was made", w.count-made)
	}

	// One of them comes and goes unseen.
	lost := w.pods(t.Context())[0]
	w.must(w.vanish(t.Context(), &lost))
	w.clock = w.clock.Add(showing - 1)
	look()
	if w.count != made {
		t.Errorf("%d writes within %s", w.count-made, showing)
	}
	w.clock = w.clock.Add(1)
	look()
	again := &corev1.Pod{}
	w.must(w.api.Get(t.Context(), client.ObjectKeyFromObject(&lost), again))
	if again.UID == lost.UID {
		t.Error("it is the same")
	}
}

// A pod that is known to be gone is made again at once.
func TestAPodThatIsGone(t *testing.T) {
	w := newWorld(t, fault{})
	w.blind = true
	w.must(w.api.Create(t.Context(), testGang()))
	w.plan(t.Context())
	for len(w.pods(t.Context())) == 0 {
		_, err := w.ctl.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key})
		w.must(err)
	}
	lost := w.pods(t.Context())[0]
	w.must(w.vanish(t.Context(), &lost))
	w.ctl.mourn(&lost)
	_, err := w.ctl.Reconcile(t.Context(), ctrl.Request{NamespacedName: w.key})
	w.must(err)
	w.must(w.api.Get(t.Context(), client.ObjectKeyFromObject(&lost), &corev1.Pod{}))
}

// How many members run is written now and then; everything else at once.
func TestCountsAreWrittenNowAndThen(t *testing.T) {
	w := newWorld(t, fault{})
	w.must(w.api.Create(t.Context(), testGang()))
	w.phase(v1alpha1.GangRunning)
	g := w.gang(t.Context())
	w.must(w.ctl.patchStatus(t.Context(), g, g.Status))
	after := func(passed time.Duration, change func(*v1alpha1.GangStatus)) time.Duration {
		status := *g.Status.DeepCopy()
		change(&status)
		return w.ctl.early(observed{gang: g, now: w.clock.Add(passed)}, &status)
	}
	count := func(s *v1alpha1.GangStatus) { s.Roles[0].Running-- }
	if wait := after(0, count); wait != countsEvery {
		t.Errorf("written after %s, want %s", wait, countsEvery)
	}
	if wait := after(0, func(s *v1alpha1.GangStatus) { s.Phase, s.Message = v1alpha1.GangStarting, "again" }); wait > 0 {
		t.Errorf("news waits %s for counts that wait", wait)
	}
	if wait := after(0, count); wait != countsEvery {
		t.Errorf("written after %s, want %s", wait, countsEvery)
	}
	if wait := after(countsEvery, count); wait > 0 {
		t.Errorf("written after another %s", wait)
	}
	if wait := after(0, func(s *v1alpha1.GangStatus) { s.Done = append(s.Done, "worker-0") }); wait > 0 {
		t.Errorf("that a member is done is written after %s", wait)
	}
	w.boot()
	if wait := after(0, count); wait > 0 {
		t.Errorf("a new controller writes after %s", wait)
	}
}
