package gang

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// evict gives the scheduler's order to end an attempt.
func (w *world) evict(attempt string) {
	w.t.Helper()
	w.change(func(g *v1alpha1.Gang) {
		metav1.SetMetaDataAnnotation(&g.ObjectMeta, v1alpha1.AnnotationEvict, attempt+" nlp/bert")
	})
}

// evicted waits until the order is obeyed: the attempt drains.
func (w *world) evicted() {
	w.t.Helper()
	w.until("an eviction", func() bool { return w.gang(w.t.Context()).Status.Evictions == 1 })
}

// again asserts that the gang runs in its second attempt, evicted once and
// with nothing held against it.
func (w *world) again() {
	w.t.Helper()
	w.until("second attempt", func() bool { return w.gang(w.t.Context()).Status.Attempt == 2 })
	w.phase(v1alpha1.GangRunning)
	s := w.gang(w.t.Context()).Status
	if s.Evictions != 1 || s.EvictedFor != "nlp/bert" || s.EvictedTime != nil || s.Restarts != 0 || s.NotBefore != nil || s.Outcome != "" {
		w.t.Fatalf("after one eviction: %+v", s)
	}
}

// orders are the flows in which an attempt is ended by order.
var orders = map[string]func(w *world){
	"evict": func(w *world) {
		w.phase(v1alpha1.GangRunning)
		w.evict("1")
		w.again()
		w.holdsAll()
	},
	"evict what is starting": func(w *world) {
		w.evict("1")
		w.again()
		w.holdsAll()
		if s := w.gang(w.t.Context()).Status; s.RanSeconds != 0 {
			w.t.Fatalf("it ran %d s before it was started", s.RanSeconds)
		}
	},
	"evict a collective with a member done": func(w *world) {
		w.change(func(g *v1alpha1.Gang) { g.Spec.Restart = v1alpha1.RestartScopeGang })
		w.phase(v1alpha1.GangRunning)
		w.exits["resnet-worker-0"] = succeeds
		w.until("a worker done", func() bool { return len(w.gang(w.t.Context()).Status.Done) == 1 })
		w.evict("1")
		w.again()
		w.holdsAll() // all of them again, the one that was done too
	},
	"evict with a member done": func(w *world) {
		w.phase(v1alpha1.GangRunning)
		w.exits["resnet-worker-0"] = succeeds
		w.until("a worker done", func() bool { return len(w.gang(w.t.Context()).Status.Done) == 1 })
		w.evict("1")
		w.again()
		w.exits["resnet-worker-1"] = succeeds
		w.phase(v1alpha1.GangSucceeded)
		w.holdsNothing()
	},
	"succeeds before it is told to stop": func(w *world) {
		w.change(func(g *v1alpha1.Gang) { g.Spec.Restart = v1alpha1.RestartScopeGang })
		w.phase(v1alpha1.GangRunning)
		w.evict("1")
		w.setPods(succeeds, "resnet-worker-0", "resnet-worker-1")
		w.phase(v1alpha1.GangSucceeded)
		w.holdsNothing()
		if s := w.gang(w.t.Context()).Status; s.Evictions != 0 || s.Attempt != 1 {
			w.t.Fatalf("it had ended by itself: %+v", s)
		}
	},
	"fails before it is told to stop": func(w *world) {
		w.change(func(g *v1alpha1.Gang) { g.Spec.BackoffLimit = 0 })
		w.phase(v1alpha1.GangRunning)
		w.evict("1")
		w.setPods(fails, "resnet-worker-1")
		w.phase(v1alpha1.GangFailed)
		w.holdsNothing()
	},
	"evict and suspend": func(w *world) {
		w.phase(v1alpha1.GangRunning)
		w.evict("1")
		w.evicted()
		w.change(func(g *v1alpha1.Gang) { g.Spec.Suspend = true })
		w.phase(v1alpha1.GangSuspended)
		w.holdsNothing()
		w.change(func(g *v1alpha1.Gang) { g.Spec.Suspend = false })
		w.again()
	},
	"suspend and evict": func(w *world) {
		w.phase(v1alpha1.GangRunning)
		w.change(func(g *v1alpha1.Gang) { g.Spec.Suspend = true })
		w.evict("1")
		w.phase(v1alpha1.GangSuspended)
		w.holdsNothing()
		if s := w.gang(w.t.Context()).Status; s.Evictions != 0 {
			w.t.Fatalf("it was suspended before: %+v", s)
		}
	},
	"evict and delete": func(w *world) {
		w.phase(v1alpha1.GangRunning)
		w.evict("1")
		w.evicted()
		w.must(w.api.Delete(w.t.Context(), w.gang(w.t.Context())))
		w.leavesNothing()
	},
	"evict and stop": func(w *world) {
		w.phase(v1alpha1.GangRunning)
		w.evict("1")
		w.evicted()
		w.change(func(g *v1alpha1.Gang) { g.Spec.Stop = "the deadline of 4h passed" })
		w.phase(v1alpha1.GangFailed)
		w.holdsNothing()
	},
	"release by force": func(w *world) {
		w.phase(v1alpha1.GangRunning)
		w.stuck["resnet-worker-1"] = true
		w.change(func(g *v1alpha1.Gang) {
			metav1.SetMetaDataAnnotation(&g.ObjectMeta, v1alpha1.AnnotationRelease, "1 ada@box")
		})
		w.until("second attempt", func() bool { return w.gang(w.t.Context()).Status.Attempt == 2 })
		w.phase(v1alpha1.GangRunning)
		w.holdsAll()
		if s := w.gang(w.t.Context()).Status; s.Restarts != 0 || s.Evictions != 0 {
			w.t.Fatalf("after a release: %+v", s)
		}
	},
	"release by force what is being deleted": func(w *world) {
		w.phase(v1alpha1.GangRunning)
		w.stuck["resnet-worker-1"] = true
		w.must(w.api.Delete(w.t.Context(), w.gang(w.t.Context())))
		for range 20 {
			w.round()
		}
		if w.gang(w.t.Context()) == nil {
			w.t.Fatal("a gang is gone whose member does not answer")
		}
		w.change(func(g *v1alpha1.Gang) {
			metav1.SetMetaDataAnnotation(&g.ObjectMeta, v1alpha1.AnnotationRelease, "1 ada@box")
		})
		w.leavesNothing()
	},
}

// setPods lets pods end now.
func (w *world) setPods(status corev1.PodStatus, names ...string) {
	w.t.Helper()
	for _, p := range w.pods(w.t.Context()) {
		for _, name := range names {
			if p.Name == name {
				p.Status = *status.DeepCopy()
				w.must(w.api.Status().Update(w.t.Context(), &p))
			}
		}
	}
}

// Orders that are not of the present attempt, or nobody's, do nothing.
func TestOrdersThatMeanNothing(t *testing.T) {
	for _, text := range []string{"", "2 nlp/bert", "0 nlp/bert", "-1 nlp/bert", "1", "1 bert", "1 a/b/c", "one nlp/bert", "1 nlp/bert please", "4294967297 nlp/bert"} {
		t.Run(text, func(t *testing.T) {
			w := newWorld(t, fault{})
			w.must(w.api.Create(t.Context(), testGang()))
			w.phase(v1alpha1.GangRunning)
			w.change(func(g *v1alpha1.Gang) {
				metav1.SetMetaDataAnnotation(&g.ObjectMeta, v1alpha1.AnnotationEvict, text)
			})
			for range 5 {
				w.round()
			}
			w.holdsAll()
			if s := w.gang(t.Context()).Status; s.Attempt != 1 || s.Evictions != 0 {
				t.Errorf("status %+v", s)
			}
		})
	}
}

// TestTimesOfAnEvictedGang follows the sums over three attempts: what ran, and
// how long it was kept from running.
func TestTimesOfAnEvictedGang(t *testing.T) {
	w := newWorld(t, fault{})
	w.must(w.api.Create(t.Context(), testGang()))
	w.phase(v1alpha1.GangRunning)
	w.clock = w.clock.Add(time.Hour)
	w.evict("1")
	w.evicted()
	s := w.gang(t.Context()).Status
	if want := "makes room for nlp/bert; it is started again when there is room"; s.Message != want {
		t.Errorf("message %q, want %q", s.Message, want)
	}
	if s.RanSeconds < 3600 || s.RanSeconds > 3605 || s.AllStartedTime != nil || s.EvictedTime == nil {
		t.Errorf("after an hour: %+v", s)
	}
	w.clock = w.clock.Add(10 * time.Minute)
	w.again()
	if s = w.gang(t.Context()).Status; s.AwaySeconds < 600 || s.AwaySeconds > 610 || s.AllStartedTime == nil {
		t.Errorf("after the second start: %+v", s)
	}
	// The order of the first attempt means nothing to the second, and a clock
	// that is set back takes no time away.
	before := s.RanSeconds
	w.clock = w.clock.Add(-24 * time.Hour)
	w.evict("2")
	w.until("a second eviction", func() bool { return w.gang(t.Context()).Status.Evictions == 2 })
	if s = w.gang(t.Context()).Status; s.RanSeconds != before {
		t.Errorf("the clock was set back and the run time went from %d to %d s", before, s.RanSeconds)
	}
	w.change(func(g *v1alpha1.Gang) { g.Spec.Suspend = true })
	w.phase(v1alpha1.GangSuspended)
	if s = w.gang(t.Context()).Status; s.AwaySeconds != 0 || s.EvictedTime != nil || s.Evictions != 2 {
		t.Errorf("suspended: %+v", s)
	}
}

// A failure and an end count into the run time too.
func TestRunTimeAtTheEnd(t *testing.T) {
	w := newWorld(t, fault{})
	g := testGang()
	g.Spec.Restart = v1alpha1.RestartScopeGang
	w.must(w.api.Create(t.Context(), g))
	w.phase(v1alpha1.GangRunning)
	w.clock = w.clock.Add(time.Minute)
	w.exits["resnet-worker-1"] = fails
	w.until("second attempt", func() bool { return w.gang(t.Context()).Status.Attempt == 2 })
	w.phase(v1alpha1.GangRunning)
	w.clock = w.clock.Add(time.Minute)
	w.exits["resnet-worker-0"], w.exits["resnet-worker-1"] = succeeds, succeeds
	w.phase(v1alpha1.GangSucceeded)
	if s := w.gang(t.Context()).Status; s.RanSeconds < 120 || s.RanSeconds > 130 || s.AllStartedTime != nil {
		t.Errorf("two attempts of a minute: %+v", s)
	}
}

// Who released is told, and nothing is released that answers for itself.
func TestReleaseSaysWho(t *testing.T) {
	w := newWorld(t, fault{})
	w.must(w.api.Create(t.Context(), testGang()))
	w.phase(v1alpha1.GangRunning)
	w.change(func(g *v1alpha1.Gang) {
		metav1.SetMetaDataAnnotation(&g.ObjectMeta, v1alpha1.AnnotationRelease, "1 ada@box")
	})
	w.until("the release", func() bool {
		return strings.HasPrefix(w.gang(t.Context()).Status.Message, "released by force by ada@box")
	})
	if w.running() != 0 {
		t.Errorf("%d members are still in the API", w.running())
	}
}

// TestEndWhileEvicted is the moment between the decision to evict and the
// deletion of the pods: what has ended by itself by then has ended, and what
// fails then is not held against the gang.
func TestEndWhileEvicted(t *testing.T) {
	now := metav1.NewMicroTime(time.Date(2026, 5, 4, 14, 0, 0, 0, time.UTC))
	deleted := metav1.NewTime(now.Time)
	failed := *fails.DeepCopy()
	for _, c := range []struct {
		name    string
		evicted *metav1.MicroTime
		told    bool
		ends    corev1.PodStatus
		want    v1alpha1.GangPhase
	}{
		{"all succeeded by themselves", &now, false, succeeds, v1alpha1.GangSucceeded},
		{"all succeeded after they were told to stop", &now, true, succeeds, ""},
		{"all failed", &now, false, failed, ""},
		{"the attempt had failed before", nil, false, succeeds, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := testGang()
			g.Spec.Restart, g.Spec.BackoffLimit = v1alpha1.RestartScopeGang, 0
			g.Status = v1alpha1.GangStatus{Phase: v1alpha1.GangDraining, Attempt: 2, Evictions: 1, EvictedTime: c.evicted}
			o := observed{gang: g, placement: testPlacement(), now: now.Time, node: func(string) stands { return stands{there: true} }}
			for i, name := range []string{"0", "1"} {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
					Name: "resnet-worker-" + name, UID: types.UID("pod-" + name),
					Labels: map[string]string{v1alpha1.LabelRole: "worker", v1alpha1.LabelIndex: name, v1alpha1.LabelAttempt: "2"},
				}, Status: *c.ends.DeepCopy()}
				if c.told && i == 1 {
					p.DeletionTimestamp = &deleted
				}
				o.pods = append(o.pods, p)
			}
			d := decide(o)
			if d.status.Outcome != c.want || d.status.Restarts != 0 || d.status.Phase != v1alpha1.GangDraining {
				t.Errorf("status %+v, want the outcome %q", d.status, c.want)
			}
		})
	}
}
