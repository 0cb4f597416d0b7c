package snapshot

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fencing"
)

// begin runs a loop that the test ends: by cancel, after which ended returns once
// it has let go of the fence.
func begin(t *testing.T, api client.WithWatch) (loop *Loop, cancel, ended func()) {
	t.Helper()
	loop, err := NewLoop(Options{Cache: newTestCache(t, api), Client: api, Live: api, Location: time.UTC})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	end := make(chan error, 1)
	go func() { end <- loop.Run(ctx) }()
	select {
	case <-loop.Ready():
	case err := <-end:
		t.Fatalf("the loop ended with %v", err)
	}
	return loop, cancel, func() {
		t.Helper()
		cancel()
		if err := <-end; err != nil {
			t.Fatalf("the loop ended with %v", err)
		}
	}
}

// fenceIs compares what the fence says.
func fenceIs(t *testing.T, api client.Client, want fencing.State) {
	t.Helper()
	have, err := fencing.Read(t.Context(), api, v1alpha1.SystemNamespace)
	if err != nil || have != want {
		t.Errorf("the fence says %+v, %v; want %+v", have, err, want)
	}
}

// carries compares the epochs of Placements.
func carries(t *testing.T, api client.Client, want map[string]int64) {
	t.Helper()
	for name, epoch := range want {
		p := &v1alpha1.Placement{}
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: name}, p); err != nil || fencing.Of(p) != epoch {
			t.Errorf("%s carries epoch %d, %v; want %d", name, fencing.Of(p), err, epoch)
		}
	}
}

// TestHandOver has three loops follow one another, the first two in order: what
// they placed is counted, and nothing is written for it. Then one takes the fence
// and is never heard of again: all of it is adopted.
func TestHandOver(t *testing.T) {
	waits := testPod("waits", "3")
	waits.CreationTimestamp = metav1.Now()
	api := testAPI(t, interceptor.Funcs{}, testNode(2), testGang("void", 1, "1"), testGang("first", 1, "1"), waits)
	earlier(t, api, 2)
	if err := api.Create(t.Context(), written("void", 1, 1, "GPU-1")); err != nil {
		t.Fatal(err)
	}
	placed := func(name string) {
		t.Helper()
		eventually(t, "placement "+name, func() bool {
			return api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: name}, &v1alpha1.Placement{}) == nil
		})
	}
	stamped := func(epoch int64) {
		t.Helper()
		pod := &corev1.Pod{}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(waits), pod); err != nil || fencing.Stamp(pod) != epoch {
			t.Errorf("the pod that waits carries %d, %v; want %d", fencing.Stamp(pod), err, epoch)
		}
	}
	_, _, end := begin(t, api)
	placed("first-1")
	end()
	fenceIs(t, api, fencing.State{Epoch: 3, Settled: 3, Closed: 3})
	stamped(3)

	loop, _, end := begin(t, api)
	fenceIs(t, api, fencing.State{Epoch: 4, Settled: 3, Closed: 3})
	if p := written("first", 1, 3, "GPU-0"); !loop.counts(p) || loop.counts(written("void", 1, 1, "GPU-1")) {
		t.Error("it must count what the chain has placed, and nothing that is void")
	}
	if err := api.Create(t.Context(), testGang("second", 1, "1")); err != nil {
		t.Fatal(err)
	}
	placed("second-1")
	end()
	fenceIs(t, api, fencing.State{Epoch: 4, Settled: 3, Closed: 4})
	carries(t, api, map[string]int64{"void-1": 1, "first-1": 3, "second-1": 4})
	stamped(3)
	given := map[string]bool{}
	for _, name := range []string{"first-1", "second-1"} {
		p := &v1alpha1.Placement{}
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "vision", Name: name}, p); err != nil {
			t.Fatal(err)
		}
		given[p.Spec.Members[0].GPUs[0]] = true
	}
	if len(given) != 2 {
		t.Errorf("two gangs hold %v", given)
	}

	lost := fencing.New(fencing.Options{Client: api, Live: api, Alone: true})
	if _, err := lost.Take(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := lost.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, _, end = begin(t, api)
	fenceIs(t, api, fencing.State{Epoch: 6, Settled: 6})
	carries(t, api, map[string]int64{"void-1": 1, "first-1": 6, "second-1": 6})
	stamped(6)
	end()
}

// TestNoOrderlyHandOver ends a loop that never hears what came of a write.
func TestNoOrderlyHandOver(t *testing.T) {
	lost := errors.New("connection lost")
	for _, tt := range []struct {
		name    string
		o       client.Object
		network func(sent chan<- struct{}) interceptor.Funcs
	}{
		{"a placement", testGang("a", 1, "1"), func(sent chan<- struct{}) interceptor.Funcs {
			return interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if _, ok := o.(*v1alpha1.Placement); !ok || dryRun(opts) {
					return c.Create(ctx, o, opts...)
				}
				tell(sent)
				return lost
			}}
		}},
		{"a binding", testPod("a", "1"), func(sent chan<- struct{}) interceptor.Funcs {
			return interceptor.Funcs{SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
				tell(sent)
				return lost
			}}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sent := make(chan struct{}, 1)
			api := testAPI(t, tt.network(sent), testNode(1), tt.o)
			_, _, end := begin(t, api)
			<-sent
			end()
			fenceIs(t, api, fencing.State{Epoch: 1, Settled: 1})
		})
	}
}

// tell says that something has happened, unless that was said already.
func tell(happened chan<- struct{}) {
	select {
	case happened <- struct{}{}:
	default:
	}
}

// TestAnswerIsAwaited ends a loop while a write is under way: it waits for the
// answer, and hands over in order.
func TestAnswerIsAwaited(t *testing.T) {
	sent, answer := make(chan struct{}, 1), make(chan struct{})
	api := testAPI(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, ok := o.(*v1alpha1.Placement); ok && !dryRun(opts) {
				tell(sent)
				if <-answer; ctx.Err() != nil {
					return ctx.Err()
				}
			}
			return c.Create(ctx, o, opts...)
		},
	}, testNode(1), testGang("a", 1, "1"))
	_, cancel, ended := begin(t, api)
	<-sent
	cancel()
	close(answer)
	ended()
	fenceIs(t, api, fencing.State{Epoch: 1, Settled: 1, Closed: 1})
	carries(t, api, map[string]int64{"a-1": 1})
}
