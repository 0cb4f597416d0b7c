package snapshot

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/snapshot/dryrun"
)

// elasticGang has 1 to so many workers with a GPU each.
func elasticGang(name string, workers int32) *v1alpha1.Gang {
	g := testGang(name, workers, "1")
	least := int32(1)
	g.Spec.Roles[0].MinReplicas = &least
	return g
}

// placements lists those that are there, those that are leaving apart.
func placements(t *testing.T, api client.Client) (staying, leaving []v1alpha1.Placement) {
	t.Helper()
	list := &v1alpha1.PlacementList{}
	if err := api.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Items {
		if p.DeletionTimestamp != nil {
			leaving = append(leaving, p)
		} else {
			staying = append(staying, p)
		}
	}
	return staying, leaving
}

// runs says, as its controller would, that a gang's attempt is under way.
func runs(t *testing.T, api client.Client, name string) {
	t.Helper()
	g := &v1alpha1.Gang{}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: name}, g); err != nil {
		t.Fatal(err)
	}
	at := metav1.NowMicro()
	g.Status = v1alpha1.GangStatus{Phase: v1alpha1.GangRunning, Attempt: 1, AllStartedTime: &at}
	if err := api.Status().Update(t.Context(), g); err != nil {
		t.Fatal(err)
	}
}

// withUIDs gives every placement a UID, as the API server does.
func withUIDs() interceptor.Funcs {
	var n atomic.Int64
	return interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if p, ok := o.(*v1alpha1.Placement); ok {
			p.UID = types.UID("placement-" + p.Name + time.Unix(n.Add(1), 0).UTC().Format("-150405"))
		}
		return c.Create(ctx, o, opts...)
	}}
}

func TestGrowsAndOrdersBack(t *testing.T) {
	api := testAPI(t, withUIDs(), testNode(4), elasticGang("sweep", 8))
	run(t, api)
	eventually(t, "the minimum", func() bool { staying, _ := placements(t, api); return len(staying) == 1 })
	if staying, _ := placements(t, api); staying[0].Name != "sweep-1" || len(staying[0].Spec.Members) != 1 {
		t.Fatalf("%+v", staying[0])
	}
	runs(t, api, "sweep")
	eventually(t, "all GPUs", func() bool { staying, _ := placements(t, api); return len(staying) == 4 })
	staying, _ := placements(t, api)
	devices := map[string]bool{}
	for _, p := range staying {
		if p.Name == "sweep-1" {
			continue
		}
		m := p.Spec.Members[0]
		devices[m.GPUs[0]] = true
		if p.Spec.Extends != "sweep-1" || p.Spec.Attempt != 1 || p.Spec.Epoch != 1 || p.Labels[v1alpha1.LabelGang] != "sweep" || p.Finalizers[0] != v1alpha1.GangFinalizer {
			t.Errorf("%+v", p)
		}
	}
	if len(devices) != 3 {
		t.Errorf("GPUs %v", devices)
	}
	// Another needs two: two are ordered back, and it is told for whom.
	if err := api.Create(t.Context(), testGang("bert", 2, "1")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two orders", func() bool { _, leaving := placements(t, api); return len(leaving) == 2 })
	_, leaving := placements(t, api)
	for _, p := range leaving {
		if p.Annotations[v1alpha1.AnnotationGiveBack] != "vision/bert" || p.Spec.Extends == "" {
			t.Errorf("%s is ordered back: %v", p.Name, p.Annotations)
		}
		p.Finalizers = nil
		if err := api.Update(t.Context(), &p); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the other", func() bool {
		return api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: "bert-1"}, &v1alpha1.Placement{}) == nil
	})
	if staying, leaving := placements(t, api); len(staying) != 3 || len(leaving) != 0 {
		t.Errorf("%d stay and %d leave, want 3 and 0", len(staying), len(leaving))
	}
}

// An API server that has just been started refuses pods for a while. What is idle then is not given
// to a gang that can use more: who waits, and is refused, would have to get it back.
func TestNothingGrowsBeforeTheAPIServerKnowsWhoWaits(t *testing.T) {
	const most = 3 * dryrun.FirmAsks
	var refusals atomic.Int64
	funcs := withUIDs()
	funcs.Create = func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if pod, ok := o.(*corev1.Pod); ok && dryRun(opts) && pod.Spec.Containers[0].Image == "bert" && refusals.Add(1) <= most {
			return apierrors.NewForbidden(corev1.Resource("pods"), o.GetName(), errors.New(`serviceaccount "default" not found`))
		}
		return withUIDs().Create(ctx, c, o, opts...)
	}
	api := testAPI(t, funcs, testNode(3), elasticGang("sweep", 3))
	t.Run("before", func(t *testing.T) {
		run(t, api)
		eventually(t, "the minimum", func() bool { staying, _ := placements(t, api); return len(staying) == 1 })
	})
	runs(t, api, "sweep")
	bert := testGang("bert", 2, "1")
	bert.Spec.Roles[0].Template.Spec.Containers[0].Image = "bert"
	if err := api.Create(t.Context(), bert); err != nil {
		t.Fatal(err)
	}
	run(t, api)
	eventually(t, "the other", func() bool {
		staying, leaving := placements(t, api)
		if len(leaving) > 0 {
			t.Fatalf("%s was added, and is ordered back", leaving[0].Name)
		}
		return slices.ContainsFunc(staying, func(p v1alpha1.Placement) bool { return p.Name == "bert-1" })
	})
	if n := refusals.Load(); n <= most {
		t.Errorf("the API server refused %d times", n)
	}
}

// What has changed between the plan and the write is not extended.
func TestWhatIsNotUnderWayDoesNotGrow(t *testing.T) {
	now := metav1.NowMicro()
	for name, change := range map[string]func(*v1alpha1.Gang){
		"as it was planned":    nil,
		"drains":               func(g *v1alpha1.Gang) { g.Status.Phase = v1alpha1.GangDraining },
		"not all started":      func(g *v1alpha1.Gang) { g.Status.AllStartedTime = nil },
		"another attempt":      func(g *v1alpha1.Gang) { g.Status.Attempt = 2 },
		"another gang":         func(g *v1alpha1.Gang) { g.UID = "other" },
		"has an outcome":       func(g *v1alpha1.Gang) { g.Status.Outcome = v1alpha1.GangSucceeded },
		"suspended":            func(g *v1alpha1.Gang) { g.Spec.Suspend = true },
		"stopped":              func(g *v1alpha1.Gang) { g.Spec.Stop = "a deadline" },
		"changed":              func(g *v1alpha1.Gang) { g.Generation = 2 },
		"ordered to make room": func(g *v1alpha1.Gang) { g.Annotations = map[string]string{v1alpha1.AnnotationEvict: "1 nlp/bert"} },
		"is released by force": func(g *v1alpha1.Gang) { g.Annotations = map[string]string{v1alpha1.AnnotationRelease: "1 ada@box"} },
		"a collective":         func(g *v1alpha1.Gang) { g.Spec.Restart = v1alpha1.RestartScopeGang },
		"began anew":           func(g *v1alpha1.Gang) { g.Spec.Restart, g.Status.Restarts = v1alpha1.RestartScopeGang, 1 },
		"a member began anew":  func(g *v1alpha1.Gang) { g.Status.Restarts = 1 },
		"an order of long ago": func(g *v1alpha1.Gang) { g.Annotations = map[string]string{v1alpha1.AnnotationEvict: "0 nlp/bert"} },
	} {
		t.Run(name, func(t *testing.T) {
			g := elasticGang("sweep", 4)
			g.Status = v1alpha1.GangStatus{Phase: v1alpha1.GangRunning, Attempt: 1, AllStartedTime: &now}
			p := &v1alpha1.Placement{Spec: v1alpha1.PlacementSpec{Gang: "sweep", GangUID: g.UID, Attempt: 1, Extends: "sweep-1"}}
			if change != nil {
				change(g)
			}
			err := freshGrowth(g, p, 1)
			if grows := slices.Contains([]string{"as it was planned", "an order of long ago", "a collective", "a member began anew"}, name); (err == nil) != grows {
				t.Errorf("%v", err)
			}
		})
	}
}

// An order that the API server does not take is given again.
func TestAnOrderThatFailsIsGivenAgain(t *testing.T) {
	funcs := withUIDs()
	var failures atomic.Int64
	funcs.Delete = func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
		if failures.Add(1) <= 3 {
			return apierrors.NewInternalError(context.DeadlineExceeded)
		}
		return c.Delete(ctx, o, opts...)
	}
	api := testAPI(t, funcs, testNode(2), elasticGang("sweep", 8))
	run(t, api)
	eventually(t, "the minimum", func() bool { staying, _ := placements(t, api); return len(staying) == 1 })
	runs(t, api, "sweep")
	eventually(t, "all GPUs", func() bool { staying, _ := placements(t, api); return len(staying) == 2 })
	if err := api.Create(t.Context(), testGang("bert", 1, "1")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the order", func() bool { _, leaving := placements(t, api); return len(leaving) == 1 })
}
