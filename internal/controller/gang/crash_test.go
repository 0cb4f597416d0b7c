package gang

import (
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot"
)

var (
	succeeds = corev1.PodStatus{Phase: corev1.PodSucceeded}
	fails    = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}},
	}}}
	cannotRun = corev1.PodStatus{Phase: corev1.PodFailed, Reason: v1alpha1.ReasonUnsupported, Message: "this node cannot run the image"}
	refusesIt = corev1.PodStatus{Phase: corev1.PodFailed, Reason: v1alpha1.ReasonRefused, Message: "port 20003 is taken"}
)

// flows are the lives of a gang that must survive a fault at every write.
var flows = map[string]func(w *world){
	"start": func(w *world) {
		w.phase(v1alpha1.GangRunning)
		w.holdsAll()
	},
	"member failure": func(w *world) {
		w.phase(v1alpha1.GangRunning)
		w.exits["resnet-worker-1"] = fails
		w.until("one restart", func() bool { return w.gang(w.t.Context()).Status.Restarts == 1 })
		w.phase(v1alpha1.GangRunning)
		w.holdsAll()
		g := w.gang(w.t.Context())
		if g.Status.Restarts != 1 || g.Status.Attempt != 1 || g.Status.GPUSeconds.Value() != 3 {
			w.t.Fatalf("after one failure: %+v", g.Status)
		}
	},
	"gang failure": func(w *world) {
		w.change(func(g *v1alpha1.Gang) { g.Spec.Restart = v1alpha1.RestartScopeGang })
		w.phase(v1alpha1.GangRunning)
		w.exits["resnet-worker-1"] = fails
		w.exits["resnet-worker-0"] = fails
		w.until("second attempt", func() bool { return w.gang(w.t.Context()).Status.Attempt == 2 })
		w.phase(v1alpha1.GangRunning)
		w.holdsAll()
		if g := w.gang(w.t.Context()); g.Status.Restarts != 1 {
			w.t.Fatalf("two members of a collective failed together, counted as %d", g.Status.Restarts)
		}
	},
	"refused": func(w *world) {
		w.exits["resnet-worker-1"] = refusesIt
		w.until("second attempt", func() bool { return w.gang(w.t.Context()).Status.Attempt == 2 })
		w.phase(v1alpha1.GangRunning)
		w.holdsAll()
		if g := w.gang(w.t.Context()); g.Status.Restarts != 0 || g.Status.Refusals != 0 {
			w.t.Fatalf("a refusal was counted as a failure: %+v", g.Status)
		}
	},
	"unsupported": func(w *world) {
		w.exits["resnet-worker-1"] = cannotRun
		w.phase(v1alpha1.GangFailed)
		w.holdsNothing()
		if g := w.gang(w.t.Context()); g.Status.Attempt != 1 || g.Status.Restarts != 0 || g.Status.DrainedTime == nil {
			w.t.Fatalf("after what no node can run: %+v", g.Status)
		}
	},
	"success": func(w *world) {
		w.phase(v1alpha1.GangRunning)
		w.exits["resnet-worker-0"], w.exits["resnet-worker-1"] = succeeds, succeeds
		w.phase(v1alpha1.GangSucceeded)
		w.holdsNothing()
		g := w.gang(w.t.Context())
		if g.Status.DrainedTime == nil || g.Status.LastWorkerTime == nil || g.Status.GPUSeconds.Value() != 6 || len(w.pods(w.t.Context())) != 2 {
			w.t.Fatalf("after success: %+v, %d pods", g.Status, len(w.pods(w.t.Context())))
		}
	},
	"suspend and resume": func(w *world) {
		w.phase(v1alpha1.GangRunning)
		w.exits["resnet-worker-0"] = succeeds
		w.until("a worker done", func() bool { return len(w.gang(w.t.Context()).Status.Done) == 1 })
		w.change(func(g *v1alpha1.Gang) { g.Spec.Suspend = true })
		w.phase(v1alpha1.GangSuspended)
		w.holdsNothing()
		w.change(func(g *v1alpha1.Gang) { g.Spec.Suspend = false })
		w.phase(v1alpha1.GangRunning)
		w.exits["resnet-worker-1"] = succeeds
		w.phase(v1alpha1.GangSucceeded)
		w.holdsNothing()
	},
	"stop": func(w *world) {
		w.phase(v1alpha1.GangRunning)
		w.change(func(g *v1alpha1.Gang) { g.Spec.Stop = "the deadline of 4h passed" })
		w.phase(v1alpha1.GangFailed)
		w.holdsNothing()
		if g := w.gang(w.t.Context()); g.Status.Message != "the deadline of 4h passed" {
			w.t.Fatalf("message %q", g.Status.Message)
		} else if g.Status.GPUStartSeconds == nil || g.Status.GPUEndSeconds == nil || g.Status.GPUSince != nil {
			w.t.Fatalf("not counted how long GPUs were idle: %+v", g.Status)
		} else if g.Status.DrainedTime == nil || g.Status.LastWorkerTime == nil {
			w.t.Fatalf("no times of the end: %+v", g.Status)
		}
	},
	"stop before the start": func(w *world) {
		w.change(func(g *v1alpha1.Gang) { g.Spec.Stop = "the deadline of 4h passed" })
		w.phase(v1alpha1.GangFailed)
		w.holdsNothing()
		if g := w.gang(w.t.Context()); g.Status.DrainedTime == nil {
			w.t.Fatalf("no time of the end: %+v", g.Status)
		}
	},
	"made with its finalizer": func(w *world) {
		w.change(func(g *v1alpha1.Gang) { g.Finalizers = []string{v1alpha1.GangFinalizer} })
		w.phase(v1alpha1.GangRunning)
		w.holdsAll()
		w.must(w.api.Delete(w.t.Context(), w.gang(w.t.Context())))
		w.leavesNothing()
	},
	"delete while starting": func(w *world) {
		w.until("pods", func() bool { return len(w.pods(w.t.Context())) > 0 })
		w.must(w.api.Delete(w.t.Context(), w.gang(w.t.Context())))
		w.leavesNothing()
	},
	"delete in the foreground": func(w *world) {
		w.phase(v1alpha1.GangRunning)
		w.change(func(g *v1alpha1.Gang) { g.Finalizers = append(g.Finalizers, metav1.FinalizerDeleteDependents) })
		w.must(w.api.Delete(w.t.Context(), w.gang(w.t.Context())))
		w.leavesNothing()
	},
	"delete after success": func(w *world) {
		w.phase(v1alpha1.GangRunning)
		w.exits["resnet-worker-0"], w.exits["resnet-worker-1"] = succeeds, succeeds
		w.phase(v1alpha1.GangSucceeded)
		w.must(w.api.Delete(w.t.Context(), w.gang(w.t.Context())))
		w.leavesNothing()
	},
	"member deleted by hand": func(w *world) {
		w.phase(v1alpha1.GangRunning)
		w.must(w.api.Delete(w.t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "resnet-worker-0"}}))
		w.until("three members run again", func() bool {
			return w.running() == 3 && w.gang(w.t.Context()).Status.Phase == v1alpha1.GangRunning
		})
		w.holdsAll()
	},
	"placement deleted by hand": func(w *world) {
		w.phase(v1alpha1.GangRunning)
		w.must(w.api.DeleteAllOf(w.t.Context(), &v1alpha1.Placement{}, client.InNamespace("vision")))
		w.until("second attempt", func() bool { return w.gang(w.t.Context()).Status.Attempt == 2 })
		w.phase(v1alpha1.GangRunning)
		w.holdsAll()
	},
}

// holdsAll asserts that the gang is wholly started: every member runs, and
// holds what its placement says.
func (w *world) holdsAll() {
	w.t.Helper()
	ctx := w.t.Context()
	if n := len(w.placements(ctx)); n != 1 {
		w.t.Fatalf("%d placements", n)
	}
	if n := w.running(); n != 3 {
		w.t.Fatalf("%d members run", n)
	}
}

// running counts the members that run and are not told to stop.
func (w *world) running() int {
	w.t.Helper()
	n := 0
	for _, p := range w.pods(w.t.Context()) {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// holdsNothing asserts that the gang is wholly released.
func (w *world) holdsNothing() {
	w.t.Helper()
	s, err := snapshot.Take(w.t.Context(), w.api, w.clock)
	w.must(err)
	if held := scheduling.NewLedger(s).Holdings(); len(held) != 0 || len(w.placements(w.t.Context())) != 0 {
		w.t.Fatalf("still held: %+v", held)
	}
}

func (w *world) leavesNothing() {
	w.t.Helper()
	w.until("nothing left", func() bool {
		ctx := w.t.Context()
		return w.gang(ctx) == nil && len(w.pods(ctx)) == 0 && len(w.placements(ctx)) == 0
	})
}

// TestEveryWriteMayFail runs every flow once for each write of it and each way
// in which that write can fail: refused, done with its answer lost, and with
// the process ending before or after it.
func TestEveryWriteMayFail(t *testing.T) {
	all := maps.Clone(flows)
	maps.Copy(all, orders)
	everyWriteMayFail(t, all, testGang, fault{})
}

// TestEveryWriteMayFailWhileNewsWaits is the same where there is so much news
// that none of it is written at once: what is decided, and what is done in which
// order, does not depend on that.
func TestEveryWriteMayFailWhileNewsWaits(t *testing.T) {
	all := maps.Clone(flows)
	maps.Copy(all, orders)
	everyWriteMayFail(t, all, testGang, fault{busy: true})
}

// faults are the ways in which a write fails: before or after it was made, told
// or with the controller's death. In short tests each write fails in one of
// them, in turn.
func faults(at int) []fault {
	all := []fault{{at: at}, {at: at, done: true}, {at: at, crash: true}, {at: at, done: true, crash: true}}
	if testing.Short() {
		return all[at%len(all) : at%len(all)+1]
	}
	return all
}

func everyWriteMayFail(t *testing.T, all map[string]func(w *world), testGang func() *v1alpha1.Gang, in fault) {
	for name, flow := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clean := newWorld(t, in)
			clean.must(clean.api.Create(t.Context(), testGang()))
			flow(clean)
			for at := 1; at <= clean.count; at++ {
				for _, f := range faults(at) {
					f.busy, f.shared = in.busy, in.shared
					t.Run(fmt.Sprintf("write %d of %d, done %v, crash %v", at, clean.count, f.done, f.crash), func(t *testing.T) {
						w := newWorld(t, f)
						w.must(w.api.Create(t.Context(), testGang()))
						flow(w)
						if w.count < at {
							t.Errorf("only %d writes were made: none failed", w.count)
						}
					})
				}
			}
		})
	}
}
