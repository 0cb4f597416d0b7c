package snapshot

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fencing"
	"github.com/muster-dev/muster/internal/scheduling"
)

// written is a Placement as the scheduler of an epoch wrote it.
func written(gang string, attempt int32, epoch int64, gpu string) *v1alpha1.Placement {
	p := placementOf(testGang(gang, 1, "1"), scheduling.Plan{
		Attempt: attempt, Members: []scheduling.Assignment{{Role: "worker", Node: "here", GPUs: []string{gpu}, Port: 20000}},
	}, epoch, time.Unix(1, 0))
	p.UID = types.UID("uid-" + p.Name + "-" + strconv.FormatInt(epoch, 10))
	return p
}

// earlier leaves behind a fence that an earlier scheduler took so many times.
func earlier(t *testing.T, api client.Client, times int) {
	t.Helper()
	for range times {
		f := fencing.New(fencing.Options{Client: api, Live: api, Alone: true})
		_, err := f.Take(t.Context(), 0)
		if err := errors.Join(err, f.Settle(t.Context()), f.Release(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTakeoverAdopts(t *testing.T) {
	waits := testPod("waits", "2")
	waits.CreationTimestamp = metav1.Now() // one that waited for long is kept a node free for
	api := testAPI(t, interceptor.Funcs{}, testNode(2), testGang("old", 1, "1"), testGang("void", 1, "1"), waits)
	earlier(t, api, 3)
	for _, p := range []*v1alpha1.Placement{written("old", 1, 3, "GPU-0"), written("void", 1, 2, "GPU-1")} {
		if err := api.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	loop := run(t, api)
	if loop.epoch.Load() != 4 {
		t.Errorf("epoch %d, want 4", loop.epoch.Load())
	}
	p := &v1alpha1.Placement{}
	for name, want := range map[string]int64{"old-1": 4, "void-1": 2} {
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: name}, p); err != nil || fencing.Of(p) != want {
			t.Errorf("%s carries epoch %d, %v; want %d", name, fencing.Of(p), err, want)
		}
	}
	pod := &corev1.Pod{}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: "waits"}, pod); err != nil || fencing.Stamp(pod) != 4 {
		t.Errorf("the pod that waits carries %d, %v; want 4", fencing.Stamp(pod), err)
	}
	// What is void holds nothing: its GPU is given to another gang. The one that
	// was adopted keeps its own.
	if err := api.Create(t.Context(), testGang("new", 1, "1")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a placement", func() bool {
		return api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: "new-1"}, p) == nil
	})
	if p.Spec.Members[0].GPUs[0] != "GPU-1" || p.Spec.Epoch != 4 {
		t.Errorf("placed %+v", p.Spec)
	}
}

// TestLateBinding replaces a scheduler between its plan for a pod and the
// binding.
func TestLateBinding(t *testing.T) {
	var late atomic.Pointer[corev1.Binding]
	api := testAPI(t, interceptor.Funcs{
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o client.Object, body client.Object, opts ...client.SubResourceCreateOption) error {
			if late.CompareAndSwap(nil, body.(*corev1.Binding).DeepCopy()) {
				<-ctx.Done()
				return ctx.Err()
			}
			return bindAsServer(ctx, c, sub, o, body, opts...)
		},
	}, testNode(1), testPod("a", "1"))
	old, err := NewLoop(Options{Cache: newTestCache(t, api), Client: api, Live: api, Alone: true, LongestRequest: 100 * time.Millisecond, Location: time.UTC})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- old.Run(ctx) }()
	defer cancel()
	eventually(t, "a binding under way", func() bool { return late.Load() != nil })
	cancel() // it hears and does nothing more, but its request is under way
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	next, err := NewLoop(Options{Cache: newTestCache(t, api), Client: api, Live: api, Alone: true, Location: time.UTC})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	if next.standDown = func(error) {}; next.watch(ctx) != nil || next.takeOver(ctx) != nil {
		t.Fatal("no takeover")
	}
	err = bindAsServer(t.Context(), api, "binding", testPod("a", "1"), late.Load())
	if !apierrors.IsConflict(err) {
		t.Errorf("the late binding: %v; want a conflict", err)
	}
	cancel()
	next.wg.Wait()
}

// TestUnclearPlanIsKept changes a gang after a write of its plan went unheard:
// the plan is written again and not forgotten, because it may have arrived.
func TestUnclearPlanIsKept(t *testing.T) {
	var n atomic.Int64
	var api client.WithWatch
	api = testAPI(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, ok := o.(*v1alpha1.Placement); !ok || dryRun(opts) || n.Add(1) > 1 {
				if dryRun(opts) {
					return nil
				}
				return c.Create(ctx, o, opts...)
			}
			g := &v1alpha1.Gang{}
			if err := api.Get(ctx, client.ObjectKey{Namespace: "vision", Name: "a"}, g); err != nil {
				return err
			}
			g.Spec.Suspend, g.Generation = true, g.Generation+1
			if err := api.Update(ctx, g); err != nil {
				return err
			}
			return errors.New("connection lost")
		},
	}, testNode(1), testGang("a", 1, "1"))
	run(t, api)
	eventually(t, "the placement", func() bool {
		return api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: "a-1"}, &v1alpha1.Placement{}) == nil
	})
}

// TestTakeoverInsists has the API server go away while the epoch is moved on: once before the
// write, once after it.
func TestTakeoverInsists(t *testing.T) {
	var away atomic.Bool
	var writes atomic.Int64
	api := testAPI(t, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if _, ok := o.(*coordinationv1.Lease); !ok || !away.Load() {
				return c.Update(ctx, o, opts...)
			}
			switch writes.Add(1) {
			case 1:
				return errors.New("connection refused")
			case 2:
				return errors.Join(c.Update(ctx, o, opts...), errors.New("connection reset by peer"))
			}
			return c.Update(ctx, o, opts...)
		},
	}, testNode(1), testGang("a", 1, "1"))
	earlier(t, api, 1)
	away.Store(true)
	loop := run(t, api)
	if loop.epoch.Load() != 3 {
		t.Errorf("epoch %d, want 3: one of the earlier scheduler, one that went unheard", loop.epoch.Load())
	}
	eventually(t, "the placement", func() bool {
		return api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: "a-1"}, &v1alpha1.Placement{}) == nil
	})
}

// TestTakeoverOfADamagedLease: what a person has to mend is not tried again.
func TestTakeoverOfADamagedLease(t *testing.T) {
	api := testAPI(t, interceptor.Funcs{}, testNode(1))
	earlier(t, api, 1)
	lease := &coordinationv1.Lease{}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: "muster-scheduler-epoch"}, lease); err != nil {
		t.Fatal(err)
	}
	lease.Annotations["muster.dev/settled-epoch"] = "x"
	if err := api.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	loop, err := NewLoop(Options{Cache: newTestCache(t, api), Client: api, Live: api, Location: time.UTC})
	if err != nil {
		t.Fatal(err)
	}
	if err := loop.Run(t.Context()); !errors.Is(err, fencing.ErrDamaged) {
		t.Errorf("it ended with %v", err)
	}
}

// TestStandsDown takes the fence from a loop that plans.
func TestStandsDown(t *testing.T) {
	api := testAPI(t, interceptor.Funcs{}, testNode(1))
	loop, err := NewLoop(Options{Cache: newTestCache(t, api), Client: api, Live: api, Location: time.UTC})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(t.Context()) }()
	<-loop.Ready()
	earlier(t, api, 1)
	if err := api.Create(t.Context(), testGang("a", 1, "1")); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, fencing.ErrDeposed) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on")
	}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: "a-1"}, &v1alpha1.Placement{}); !apierrors.IsNotFound(err) {
		t.Errorf("it placed a gang after it was replaced: %v", err)
	}
}
