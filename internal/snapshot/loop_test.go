package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
)

func TestPlacesAndExplains(t *testing.T) {
	api := testAPI(t, interceptor.Funcs{}, testNode(4), testGang("first", 2, "1"))
	run(t, api)
	first := &v1alpha1.Placement{}
	eventually(t, "a placement", func() bool {
		return api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: "first-1"}, first) == nil
	})
	if first.Spec.Count() != 2 || first.Spec.Epoch != 1 || first.Spec.Nodes[0] != "here" || first.Finalizers[0] != v1alpha1.GangFinalizer ||
		first.OwnerReferences[0].UID != "uid-first" || first.Spec.Members[0].Port < 20000 {
		t.Errorf("placement %+v", first)
	}
	if err := api.Create(t.Context(), testGang("second", 3, "1")); err != nil {
		t.Fatal(err)
	}
	second := &v1alpha1.Gang{}
	eventually(t, "a reason", func() bool {
		_ = api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: "second"}, second)
		return second.Status.Message != ""
	})
	if !strings.HasPrefix(second.Status.Message, "needs 3 GPUs at once; 2 are free here, 2 are held by vision/first") {
		t.Errorf("message %q", second.Status.Message)
	}
	taken, err := Take(t.Context(), api, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	x, ok := scheduling.Account(taken, scheduling.Key{Namespace: "vision", Name: "second"}, false)
	if !ok || x.Reason.Code() != scheduling.CodeGPUs {
		t.Errorf("explained: %+v, %v", x, ok)
	}
	if _, ok := scheduling.Account(taken, scheduling.Key{Namespace: "vision", Name: "third"}, false); ok {
		t.Error("a gang that does not exist is explained")
	}
}

func TestBindsForeignPods(t *testing.T) {
	api := testAPI(t, interceptor.Funcs{}, testNode(1), testPod("a", "1"))
	run(t, api)
	p := &corev1.Pod{}
	eventually(t, "a bound pod", func() bool {
		_ = api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: "a"}, p)
		return p.Spec.NodeName == "here"
	})
	if p.Annotations[v1alpha1.AnnotationGPUs] != "GPU-0" {
		t.Errorf("annotations %v", p.Annotations)
	}
	if err := api.Create(t.Context(), testPod("b", "1")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a reason", func() bool {
		_ = api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: "b"}, p)
		return len(p.Status.Conditions) == 1
	})
	if c := p.Status.Conditions[0]; c.Reason != corev1.PodReasonUnschedulable || !strings.Contains(c.Message, "held by pod vision/a") {
		t.Errorf("condition %+v", c)
	}
	p.Status.Phase = corev1.PodFailed
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: "a"}, p); err != nil {
		t.Fatal(err)
	}
	p.Status.Phase = corev1.PodSucceeded
	if err := api.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the next pod bound", func() bool {
		_ = api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: "b"}, p)
		return p.Spec.NodeName == "here"
	})
}

// TestManyAtOnce submits more than fits, side by side, over an API whose
// answers are lost at random: no GPU is given out twice.
func TestManyAtOnce(t *testing.T) {
	var n atomic.Int64
	lose := func() bool { return n.Add(1)%3 == 0 }
	api := testAPI(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if dryRun(opts) {
				return nil
			}
			_, placement := o.(*v1alpha1.Placement)
			if placement && lose() {
				if n.Load()%2 == 0 {
					_ = c.Create(ctx, o, opts...)
				}
				return errors.New("connection lost")
			}
			return c.Create(ctx, o, opts...)
		},
	}, testNode(8))
	run(t, api)
	for i := range 30 {
		if err := api.Create(t.Context(), testGang(fmt.Sprintf("g%d", i), 2, "1")); err != nil {
			t.Fatal(err)
		}
	}
	list := &v1alpha1.PlacementList{}
	eventually(t, "4 placements", func() bool {
		list = &v1alpha1.PlacementList{}
		return api.List(t.Context(), list) == nil && len(list.Items) == 4
	})
	held := map[string]string{}
	for _, p := range list.Items {
		for m := range p.Spec.Each() {
			if other := held[m.GPUs[0]]; other != "" {
				t.Errorf("%s is held by %s and %s", m.GPUs[0], other, p.Name)
			}
			held[m.GPUs[0]] = p.Name
		}
	}
}

func TestRefusedPods(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", nil)
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("exceeded quota"))
	answers := map[string]error{"bad-worker-": invalid, "poor-worker-": quota}
	api := testAPI(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if dryRun(opts) {
				return answers[o.GetGenerateName()]
			}
			return c.Create(ctx, o, opts...)
		},
	}, testNode(8), testGang("bad", 1, "1"), testGang("poor", 1, "1"))
	run(t, api)
	g := &v1alpha1.Gang{}
	eventually(t, "an outcome", func() bool {
		_ = api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: "bad"}, g)
		return g.Status.Outcome == v1alpha1.GangFailed
	})
	if !strings.Contains(g.Status.Message, "the API server refuses its pods: role worker:") {
		t.Errorf("message %q", g.Status.Message)
	}
	eventually(t, "a reason", func() bool {
		g = &v1alpha1.Gang{}
		_ = api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: "poor"}, g)
		return strings.Contains(g.Status.Message, "exceeded quota")
	})
	if g.Status.Outcome != "" {
		t.Errorf("a full quota ended the gang: %+v", g.Status)
	}
}
