package gang

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
)

// elasticGang has 1 to 4 workers with a GPU each.
func elasticGang() *v1alpha1.Gang {
	g := testGang()
	least := int32(1)
	g.Spec.Roles = g.Spec.Roles[1:]
	g.Spec.Roles[0].Replicas, g.Spec.Roles[0].MinReplicas = 4, &least
	g.Spec.Rendezvous = v1alpha1.FrameworkNone
	return g
}

// resize does what the scheduling loop does about gangs that are placed.
func (w *world) resize(ctx context.Context, result scheduling.Result) {
	w.t.Helper()
	for _, g := range result.Growths {
		w.extend(ctx, g.UID, g.Attempt, g.Member)
	}
	for _, b := range result.GiveBacks {
		for _, p := range w.placements(ctx) {
			if string(p.UID) == b.Journal {
				w.giveBack(ctx, &p, b.For.String())
			}
		}
	}
}

func (w *world) extend(ctx context.Context, uid string, attempt int32, m scheduling.Assignment) {
	w.t.Helper()
	w.uids++
	base := fmt.Sprintf("resnet-%d", attempt)
	w.must(w.api.Create(ctx, &v1alpha1.Placement{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "vision", Name: fmt.Sprintf("%s.worker-%d.1-%d", base, m.Index, w.uids), UID: types.UID(fmt.Sprintf("extension-%d", w.uids)),
			Labels: map[string]string{v1alpha1.LabelGang: "resnet"}, Finalizers: []string{v1alpha1.GangFinalizer},
			CreationTimestamp: metav1.NewTime(w.clock),
		},
		Spec: v1alpha1.PlacementSpec{
			Gang: "resnet", GangUID: types.UID(uid), Attempt: attempt, Epoch: 1, Extends: base, Nodes: []string{m.Node},
			Members: []v1alpha1.PlacedMember{{Role: m.Role, Index: m.Index, GPUs: m.GPUs, Port: m.Port}},
		},
	}))
}

func (w *world) giveBack(ctx context.Context, p *v1alpha1.Placement, whom string) {
	w.t.Helper()
	before := p.DeepCopy()
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.AnnotationGiveBack, whom)
	w.must(w.api.Patch(ctx, p, client.MergeFrom(before)))
	w.must(w.api.Delete(ctx, p))
}

// other lets another gang of 2 workers come, which its own controller, that is
// not here, leaves as placed.
func (w *world) other() {
	w.t.Helper()
	g := testGang()
	g.Name, g.UID, g.Spec.Roles = "bert", "gang-2", g.Spec.Roles[1:]
	g.Labels = nil
	w.must(w.api.Create(w.t.Context(), g))
}

// otherEnds removes all of it.
func (w *world) otherEnds() {
	w.t.Helper()
	ctx := w.t.Context()
	for _, p := range w.placements(ctx) {
		if p.Spec.Gang == "bert" {
			controllerutil.RemoveFinalizer(&p, v1alpha1.GangFinalizer)
			w.must(w.api.Update(ctx, &p))
			w.must(w.api.Delete(ctx, &p))
		}
	}
	w.must(w.api.Delete(ctx, &v1alpha1.Gang{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "bert"}}))
}

func (w *world) otherPlaced() bool {
	return slices.ContainsFunc(w.placements(w.t.Context()), func(p v1alpha1.Placement) bool { return p.Spec.Gang == "bert" })
}

// runs waits until so many members run, and nothing leaves.
func (w *world) runs(n int) {
	w.t.Helper()
	w.until(fmt.Sprintf("%d members", n), func() bool {
		leaving := slices.ContainsFunc(w.placements(w.t.Context()), func(p v1alpha1.Placement) bool { return p.DeletionTimestamp != nil })
		s := w.gang(w.t.Context()).Status
		return w.running() == n && !leaving && s.Phase == v1alpha1.GangRunning && s.Roles[0].Running == int32(n)
	})
}

// succeed lets every member that runs, and each that comes, succeed.
func (w *world) succeed() {
	for i := range 4 {
		w.exits[fmt.Sprintf("resnet-worker-%d", i)] = succeeds
	}
}

// shrunk asserts what the status says of replicas that were given back.
func (w *world) shrunk(want ...string) {
	w.t.Helper()
	s := w.gang(w.t.Context()).Status
	got := slices.Clone(s.GivenBack)
	slices.Sort(got)
	if !slices.Equal(got, want) || int(s.Shrunk) != len(want) || int(s.Roles[0].Shrunk) != len(want) || s.Restarts != 0 || s.Evictions != 0 || s.Attempt != 1 {
		w.t.Fatalf("want %v given back and nothing else: %+v", want, s)
	}
}

// extensionFlows are the lives of an elastic gang that must survive a fault at
// every write.
var extensionFlows = map[string]func(w *world){
	"grow": func(w *world) {
		w.runs(4)
		w.shrunk()
		w.succeed()
		w.phase(v1alpha1.GangSucceeded)
		w.holdsNothing()
	},
	"give two back, and grow again": func(w *world) {
		w.runs(4)
		w.other()
		w.until("the other is placed", w.otherPlaced)
		w.runs(2)
		w.shrunk("worker-2 for vision/bert", "worker-3 for vision/bert")
		w.otherEnds()
		w.runs(4)
		w.succeed()
		w.phase(v1alpha1.GangSucceeded)
		w.holdsNothing()
		w.shrunk("worker-2 for vision/bert", "worker-3 for vision/bert")
	},
	"one is done while it is ordered back": func(w *world) {
		w.runs(4)
		w.setPods(succeeds, "resnet-worker-3")
		w.other()
		w.until("the other is placed", w.otherPlaced)
		w.runs(2)
		s := w.gang(w.t.Context()).Status
		if !slices.Contains(s.Done, "worker-3") || s.Shrunk > 1 || s.Restarts != 0 {
			w.t.Fatalf("after one was done: %+v", s)
		}
	},
	"the first is done": func(w *world) {
		w.runs(4)
		w.exits["resnet-worker-0"] = succeeds
		w.until("the first done", func() bool { return len(w.gang(w.t.Context()).Status.Done) == 1 })
		w.runs(3)
		w.other()
		w.until("the other is placed", w.otherPlaced)
		w.runs(2) // one was idle
		w.otherEnds()
		w.succeed()
		w.phase(v1alpha1.GangSucceeded)
		w.holdsNothing()
	},
	"a further member fails and is started in its place": func(w *world) {
		w.runs(4)
		w.exits["resnet-worker-2"] = fails
		w.until("one restart", func() bool { return w.gang(w.t.Context()).Status.Restarts == 1 })
		w.runs(4)
		if s := w.gang(w.t.Context()).Status; s.Attempt != 1 || s.Restarts != 1 || s.Shrunk != 0 {
			w.t.Fatalf("after one failure: %+v", s)
		}
	},
	"a further member is refused": func(w *world) {
		w.exits["resnet-worker-2"] = refusesIt
		w.until("it is noted", func() bool { return w.gang(w.t.Context()).Status.GrowNotBefore != nil })
		w.runs(4)
		if s := w.gang(w.t.Context()).Status; s.Attempt != 1 || s.Restarts != 0 || s.Refusals != 0 || s.Shrunk != 0 || s.GrowRefusals != 0 || s.Message != "" {
			w.t.Fatalf("after a refusal: %+v", s)
		}
	},
	"evict with further members": func(w *world) {
		w.runs(4)
		w.evict("1")
		w.until("second attempt", func() bool { return w.gang(w.t.Context()).Status.Attempt == 2 })
		w.runs(4)
		if s := w.gang(w.t.Context()).Status; s.Evictions != 1 || s.Shrunk != 0 {
			w.t.Fatalf("after an eviction: %+v", s)
		}
	},
	"suspend while some leave": func(w *world) {
		w.runs(4)
		w.stuck["resnet-worker-3"] = true
		w.other()
		w.until("an order", func() bool {
			return slices.ContainsFunc(w.placements(w.t.Context()), func(p v1alpha1.Placement) bool { return p.DeletionTimestamp != nil })
		})
		w.change(func(g *v1alpha1.Gang) { g.Spec.Suspend = true })
		delete(w.stuck, "resnet-worker-3")
		w.phase(v1alpha1.GangSuspended)
		w.until("the other is placed", w.otherPlaced)
		w.otherEnds()
		w.holdsNothing()
		w.change(func(g *v1alpha1.Gang) { g.Spec.Suspend = false })
		w.runs(4)
	},
	"delete with further members": func(w *world) {
		w.runs(4)
		w.must(w.api.Delete(w.t.Context(), w.gang(w.t.Context())))
		w.leavesNothing()
	},
	"two places for one member": func(w *world) {
		w.runs(4)
		w.exits["resnet-worker-1"] = succeeds
		w.until("one done", func() bool { return len(w.gang(w.t.Context()).Status.Done) == 1 })
		// A write of another scheduler, or one that comes late.
		w.extend(w.t.Context(), "gang-1", 1, scheduling.Assignment{Role: "worker", Index: 2, Node: "here", GPUs: nil, Port: 20090})
		w.extend(w.t.Context(), "gang-1", 7, scheduling.Assignment{Role: "worker", Index: 3, Node: "here", Port: 20091})
		w.extend(w.t.Context(), "gang-1", 1, scheduling.Assignment{Role: "worker", Index: 9, Node: "here", Port: 20092})
		w.until("what does not belong there is gone", func() bool { return len(w.placements(w.t.Context())) == 3 })
		w.runs(3)
		w.shrunk()
	},
	"a late extension of what is over": func(w *world) {
		w.runs(4)
		w.succeed()
		w.phase(v1alpha1.GangSucceeded)
		w.extend(w.t.Context(), "gang-1", 1, scheduling.Assignment{Role: "worker", Index: 2, Node: "here", Port: 20090})
		w.until("it is gone", func() bool { return len(w.placements(w.t.Context())) == 0 })
		w.holdsNothing()
	},
}

func TestEveryWriteMayFailOfAnElasticGang(t *testing.T) {
	everyWriteMayFail(t, extensionFlows, elasticGang, fault{})
}

// elasticCollective is one whose members begin anew together.
func elasticCollective() *v1alpha1.Gang {
	g := elasticGang()
	g.Spec.Restart = v1alpha1.RestartScopeGang
	return g
}

// collectiveFlows are lives of a collective that has more members than it needs: who is
// given back has not failed, and who fails ends the attempt of all.
var collectiveFlows = map[string]func(w *world){
	"give two back, and grow again": extensionFlows["give two back, and grow again"],
	"evict with further members":    extensionFlows["evict with further members"],
	"a further member fails": func(w *world) {
		w.runs(4)
		w.exits["resnet-worker-2"] = fails
		w.until("a second attempt", func() bool { return w.gang(w.t.Context()).Status.Attempt == 2 })
		w.runs(1) // and is given no more
		if s := w.gang(w.t.Context()).Status; s.Attempt != 2 || s.Restarts != 1 || s.Shrunk != 0 || len(s.Done) > 0 {
			w.t.Fatalf("after one failure: %+v", s)
		}
	},
}

func TestEveryWriteMayFailOfAnElasticCollective(t *testing.T) {
	everyWriteMayFail(t, collectiveFlows, elasticCollective, fault{})
}

// A quota that has no room for a further member keeps none of the others from
// running.
func TestQuotaRefusesAFurtherMember(t *testing.T) {
	w := newWorld(t, fault{})
	w.forbidden = "resnet-worker-2"
	w.must(w.api.Create(t.Context(), elasticGang()))
	w.until("it is noted", func() bool { return w.gang(t.Context()).Status.GrowRefusals > 1 })
	s := w.gang(t.Context()).Status
	if !strings.Contains(s.Message, "worker-2") || !strings.Contains(s.Message, "exceeded quota") || s.Attempt != 1 || s.Restarts != 0 || s.Phase != v1alpha1.GangRunning {
		t.Errorf("status %+v", s)
	}
	w.forbidden = ""
	w.runs(4)
	if s := w.gang(t.Context()).Status; s.Message != "" || s.GrowRefusals != 0 || s.GrowNotBefore != nil {
		t.Errorf("with a larger quota: %+v", s)
	}
}

// The notice is the pod's own: a member that is given back is deleted without a
// word on its grace period, and its place is held until it is gone.
func TestAPlaceIsHeldUntilItsMemberIsGone(t *testing.T) {
	w := newWorld(t, fault{})
	w.must(w.api.Create(t.Context(), elasticGang()))
	w.runs(4)
	w.stuck["resnet-worker-3"], w.stuck["resnet-worker-2"] = true, true
	w.other()
	for range 20 {
		w.round()
	}
	if w.otherPlaced() {
		t.Fatal("placed on what others still hold")
	}
	told := 0
	for _, p := range w.pods(t.Context()) {
		if p.DeletionTimestamp != nil {
			told++
		}
	}
	if told != 2 {
		t.Errorf("%d were told to go, want 2", told)
	}
	w.stuck = map[string]bool{}
	w.until("the other is placed", w.otherPlaced)
	w.runs(2)
}

// A place that was torn out of the journal by force stops its member, too.
func TestAnExtensionThatIsTornOut(t *testing.T) {
	w := newWorld(t, fault{})
	g := elasticGang()
	zero := resource.MustParse("0")
	g.Spec.Roles[0].GPUs = &zero
	g.Spec.Roles[0].Replicas = 2
	w.must(w.api.Create(t.Context(), g))
	w.runs(2)
	for _, p := range w.placements(t.Context()) {
		if p.Spec.Extends == "" {
			continue
		}
		controllerutil.RemoveFinalizer(&p, v1alpha1.GangFinalizer)
		w.must(w.api.Update(t.Context(), &p))
		w.must(w.api.Delete(t.Context(), &p))
	}
	uid := types.UID("")
	for _, p := range w.pods(t.Context()) {
		if strings.HasSuffix(p.Name, "-1") {
			uid = p.UID
		}
	}
	w.until("it is another", func() bool {
		p := &corev1.Pod{}
		err := w.api.Get(t.Context(), types.NamespacedName{Namespace: "vision", Name: "resnet-worker-1"}, p)
		return !apierrors.IsNotFound(err) && p.UID != uid
	})
	w.runs(2)
}

// What the cache does not show may still be there: an extension is let go only
// if the API server has no pod of it, but one of a member that is done.
func TestAnExtensionIsLetGoPastTheCache(t *testing.T) {
	w := newWorld(t, fault{})
	w.must(w.api.Create(t.Context(), elasticGang()))
	w.runs(4)
	ctx := t.Context()
	last := func() []*v1alpha1.Placement {
		for _, p := range w.placements(ctx) {
			if p.Spec.Extends != "" && p.Spec.Members[0].Index == 3 {
				return []*v1alpha1.Placement{&p}
			}
		}
		return nil
	}
	gone, err := w.ctl.letGo(ctx, w.gang(ctx), last())
	if gone || err != nil || last() == nil {
		t.Fatalf("let go although its pod runs: %v, %v", gone, err)
	}
	w.setPods(succeeds, "resnet-worker-3")
	g := w.gang(ctx)
	if gone, err = w.ctl.letGo(ctx, g, last()); gone || err != nil {
		t.Fatalf("let go although nobody has noted that it is done: %v, %v", gone, err)
	}
	g.Status.Done = append(g.Status.Done, "worker-3")
	if gone, err = w.ctl.letGo(ctx, g, last()); !gone || err != nil || last() != nil {
		t.Fatalf("not let go: %v, %v", gone, err)
	}
}

// TestAFurtherReplicaThatCameTwice lets a request for one arrive again after
// what came of the first was given back, and its GPU given to another gang.
func TestAFurtherReplicaThatCameTwice(t *testing.T) {
	for name, forgets := range map[string]bool{"the controller was there": false, "the controller is new": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fault{})
			ctx := t.Context()
			w.must(w.api.Create(ctx, elasticGang()))
			w.runs(4)
			var again *v1alpha1.Placement
			for _, p := range w.placements(ctx) {
				if p.Spec.Extends != "" && p.Spec.Members[0].Index == 3 {
					again = &v1alpha1.Placement{
						ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: "again", Labels: p.Labels, Finalizers: p.Finalizers},
						Spec:       p.Spec,
					}
				}
			}
			w.other()
			w.until("the other is placed", w.otherPlaced)
			w.runs(2)
			w.must(w.api.Create(ctx, again))
			if forgets {
				w.boot()
			}
			for range 5 { // without a look at who holds what: it names what the other holds
				_, err := w.ctl.Reconcile(ctx, ctrl.Request{NamespacedName: w.key})
				w.must(err)
				if slices.ContainsFunc(w.pods(ctx), func(p corev1.Pod) bool { return p.Name == "resnet-worker-3" }) {
					t.Fatal("a member was made of it")
				}
			}
			if slices.ContainsFunc(w.placements(ctx), func(p v1alpha1.Placement) bool { return p.UID == "again" }) {
				t.Fatal("it holds its GPU still")
			}
			w.otherEnds()
			w.runs(4)
			w.shrunk("worker-2 for vision/bert", "worker-3 for vision/bert")
		})
	}
}

// A controller that begins anew keeps the members that were added before those
// that were given back.
func TestWhatWasAddedEarlierStaysAfterARestart(t *testing.T) {
	w := newWorld(t, fault{})
	w.must(w.api.Create(t.Context(), elasticGang()))
	w.runs(4)
	w.other()
	w.until("the other is placed", w.otherPlaced)
	w.runs(2)
	uids := func() string {
		var out []string
		for _, p := range w.pods(t.Context()) {
			out = append(out, p.Name+" "+string(p.UID))
		}
		return strings.Join(out, ", ")
	}
	before := uids()
	w.boot()
	for range 5 {
		w.round()
	}
	if after := uids(); after != before {
		t.Errorf("members %s; were %s", after, before)
	}
}
