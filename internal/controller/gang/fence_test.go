package gang

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fencing"
	"github.com/muster-dev/muster/internal/memberpod"
	"github.com/muster-dev/muster/internal/memberstatus"
)

// latePlacement is a Placement as a scheduler of an epoch would have written
// it.
func latePlacement(attempt int32, epoch int64) *v1alpha1.Placement {
	p := testPlacement()
	p.Name, p.UID = "resnet-"+strconv.Itoa(int(attempt)), types.UID("late-"+fencing.Text(epoch))
	p.Spec.Attempt, p.Spec.Epoch = attempt, epoch
	p.Labels = map[string]string{v1alpha1.LabelGang: "resnet"}
	p.Finalizers = []string{v1alpha1.GangFinalizer}
	return p
}

// takeOver is what a scheduler does before it plans.
func (w *world) takeOver() {
	w.t.Helper()
	state, err := w.fence().Take(w.t.Context(), 0)
	w.must(err)
	w.settle(state.Epoch)
}

func TestVoidPlacementNeverStarts(t *testing.T) {
	w := newWorld(t, fault{})
	w.takeOver()
	w.must(w.api.Create(t.Context(), testGang()))
	w.must(w.api.Create(t.Context(), latePlacement(1, 1)))
	w.until("the late placement undone", func() bool {
		if pods := w.pods(t.Context()); len(pods) > 0 && pods[0].Labels[v1alpha1.LabelAttempt] == "1" {
			t.Fatal("members of a void placement were made")
		}
		for _, p := range w.placements(t.Context()) {
			if p.UID == "late-1" {
				return false
			}
		}
		return true
	})
	if g := w.gang(t.Context()); g.Status.Attempt != 1 {
		t.Errorf("attempt %d; want the first passed over", g.Status.Attempt)
	}
}

func TestUndecidedPlacementWaits(t *testing.T) {
	w := newWorld(t, fault{})
	w.must(w.api.Create(t.Context(), testGang()))
	p := latePlacement(1, 1)
	w.must(w.api.Create(t.Context(), p))
	state, err := w.fence().Take(t.Context(), 0)
	w.must(err)
	for range 5 {
		w.round()
	}
	if n := len(w.pods(t.Context())); n != 0 {
		t.Fatalf("%d members were made before the placement was adopted", n)
	}
	// Adopted, it starts although the takeover is not finished.
	p.Annotations = map[string]string{v1alpha1.AnnotationEpoch: fencing.Text(state.Epoch)}
	w.must(w.api.Update(t.Context(), p))
	w.phase(v1alpha1.GangRunning)
	w.holdsAll()
	if got := w.pods(t.Context())[0].Annotations[v1alpha1.AnnotationEpoch]; got != "2" {
		t.Errorf("the members carry epoch %s, want 2", got)
	}
	// A gang that is deleted does not wait for any scheduler.
	_, err = w.fence().Take(t.Context(), 0)
	w.must(err)
	w.boot()
	w.must(w.api.Delete(t.Context(), w.gang(t.Context())))
	w.leavesNothing()
}

// TestPlacementThatCameTwice lets a request arrive again after what came of the
// first was given back.
func TestPlacementThatCameTwice(t *testing.T) {
	w := newWorld(t, fault{})
	w.must(w.api.Create(t.Context(), testGang()))
	w.phase(v1alpha1.GangRunning)
	w.change(func(g *v1alpha1.Gang) { g.Spec.Suspend = true })
	w.phase(v1alpha1.GangSuspended)
	w.must(w.api.Create(t.Context(), latePlacement(1, 1)))
	w.round()
	w.until("nothing held", func() bool { return len(w.placements(t.Context())) == 0 })
	if n := len(w.pods(t.Context())); n != 0 {
		t.Errorf("%d members were made", n)
	}
}

// TestPlacementThatCameTwiceDuringALaterAttempt lets it arrive while a later
// attempt runs on what it names.
func TestPlacementThatCameTwiceDuringALaterAttempt(t *testing.T) {
	w := newWorld(t, fault{})
	w.must(w.api.Create(t.Context(), testGang()))
	w.phase(v1alpha1.GangRunning)
	w.evict("1")
	w.until("the second attempt runs", func() bool {
		s := w.gang(t.Context()).Status
		return s.Attempt == 2 && s.Phase == v1alpha1.GangRunning
	})
	w.must(w.api.Create(t.Context(), latePlacement(1, 1)))
	w.until("the late one undone", func() bool { return len(w.placements(t.Context())) == 1 })
	w.holdsAll()
	if s := w.gang(t.Context()).Status; s.Attempt != 2 || s.Phase != v1alpha1.GangRunning {
		t.Errorf("attempt %d is %s; want the second to run on", s.Attempt, s.Phase)
	}
}

// TestReleaseMarksFirst gives back an attempt whose member is made in the
// middle of it, by a request that was under way.
func TestReleaseMarksFirst(t *testing.T) {
	w := newWorld(t, fault{})
	w.must(w.api.Create(t.Context(), testGang()))
	w.must(w.api.Create(t.Context(), latePlacement(1, 1)))
	kept, err := w.ctl.release(t.Context(), "vision", "resnet", "gang-1", memberstatus.Ended)
	w.must(err)
	if !kept || len(w.placements(t.Context())) != 0 {
		t.Fatalf("released %v, %d placements left", kept, len(w.placements(t.Context())))
	}
	p := latePlacement(1, 1)
	p.ResourceVersion = ""
	w.must(w.api.Create(t.Context(), p))
	pod := w.lateMember(p)
	released, err := w.ctl.release(t.Context(), "vision", "resnet", "gang-1", memberstatus.Ended)
	w.must(err)
	have := &v1alpha1.Placement{}
	w.must(w.api.Get(t.Context(), client.ObjectKeyFromObject(p), have))
	if released || have.DeletionTimestamp == nil {
		t.Errorf("released %v, marked %v; with member %s left it must be marked and stay", released, have.DeletionTimestamp, pod)
	}
}

func (w *world) lateMember(p *v1alpha1.Placement) string {
	w.t.Helper()
	g := testGang()
	peers := told(w.t, table(g, membersOf(p), func(name string) *corev1.Node { return w.ctl.node(w.t.Context(), name) }))
	pod, err := memberpod.New(g, p, p.Spec.Members[0], v1alpha1.ResourceGPU, peers)
	w.must(err)
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(g, v1alpha1.GroupVersion.WithKind("Gang"))}
	w.must(w.api.Create(w.t.Context(), pod))
	return pod.Name
}
