package gang

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// between checks GPU seconds that were held from one moment to another, as far as the
// rounds of the world tell them apart.
func (w *world) between(what string, got, gpus float64, from, to metav1.MicroTime) {
	w.t.Helper()
	if want := gpus * to.Sub(from.Time).Seconds(); got <= 0 || got < want-2*gpus || got > want+2*gpus {
		w.t.Errorf("%s: %v GPU seconds instead of %v", what, got, want)
	}
}

// GPUs are held idle from the placement until every member runs, and from the decision
// to end an attempt until it is given back; what runs in between is not idle.
func TestGPUsHeldIdle(t *testing.T) {
	w := newWorld(t, fault{})
	now := func() metav1.MicroTime { return metav1.MicroTime{Time: w.clock} }
	status := func() v1alpha1.GangStatus { return w.gang(t.Context()).Status }
	w.must(w.api.Create(t.Context(), testGang()))
	w.exits["resnet-worker-1"] = corev1.PodStatus{Phase: corev1.PodPending}
	w.until("a worker runs", func() bool { return status().Roles != nil && status().Roles[1].Running == 1 })
	since := status().GPUSince
	if since == nil || status().GPUStartSeconds != nil {
		t.Fatalf("before all run: %+v", status())
	}
	for range 5 {
		w.round()
	}
	w.run("resnet-worker-1")
	w.phase(v1alpha1.GangRunning)
	started := now()
	first := status()
	if first.GPUSince != nil || first.GPUEndSeconds != nil {
		t.Fatalf("all run: %+v", first)
	}
	w.between("until all ran", first.GPUStartSeconds.AsApproximateFloat64(), 2, *since, started)
	if part, all := first.GPUStartedSeconds.AsApproximateFloat64(), first.GPUStartSeconds.AsApproximateFloat64(); part <= 0 || part > all/2 {
		t.Errorf("of %v GPU seconds the member that had started held %v", all, part)
	}

	for range 5 {
		w.round()
	}
	if s := status(); s.GPUSince != nil || !s.GPUStartSeconds.Equal(*first.GPUStartSeconds) {
		t.Errorf("counted while all run: %+v", s)
	}
	w.evict("1")
	w.until("it ends", func() bool { return status().GPUSince != nil })
	ends := status().GPUSince
	w.until("it is given back", func() bool { return status().GPUSince == nil })
	s := status()
	w.between("until it was given back", s.GPUEndSeconds.AsApproximateFloat64(), 2, *ends, now())

	w.again()
	w.phase(v1alpha1.GangRunning)
	if again := status(); again.GPUStartSeconds.Cmp(*first.GPUStartSeconds) <= 0 || !again.GPUEndSeconds.Equal(*s.GPUEndSeconds) {
		t.Errorf("the next attempt adds nothing to %s, or to the end of the one before: %+v", first.GPUStartSeconds, again)
	}
}

// Members that are done hold no GPU while the rest ends.
func TestWhoIsDoneHoldsNothing(t *testing.T) {
	w := newWorld(t, fault{})
	w.must(w.api.Create(t.Context(), testGang()))
	w.phase(v1alpha1.GangRunning)
	w.exits["resnet-worker-0"], w.exits["resnet-worker-1"] = succeeds, succeeds
	w.phase(v1alpha1.GangSucceeded)
	if s := w.gang(t.Context()).Status; s.GPUEndSeconds != nil || s.GPUSince != nil {
		t.Errorf("%+v", s)
	}
}

// A gang without GPUs says nothing of them.
func TestNoGPUsHeldIdle(t *testing.T) {
	w := newWorld(t, fault{})
	g := testGang()
	for i := range g.Spec.Roles {
		g.Spec.Roles[i].GPUs = nil
	}
	w.must(w.api.Create(t.Context(), g))
	w.phase(v1alpha1.GangRunning)
	w.change(func(g *v1alpha1.Gang) { g.Spec.Stop = "enough" })
	w.phase(v1alpha1.GangFailed)
	if s := w.gang(t.Context()).Status; s.GPUSince != nil || s.GPUStartSeconds != nil || s.GPUEndSeconds != nil {
		t.Errorf("%+v", s)
	}
}
