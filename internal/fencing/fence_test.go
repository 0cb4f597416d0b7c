package fencing_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/muster-dev/muster/internal/fencing"
)

var leaseKey = client.ObjectKey{Namespace: "muster-system", Name: "muster-scheduler-epoch"}

func testAPI(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).Build()
}

func newFence(api client.Client, name string, now func() time.Time) *fencing.Fence {
	return fencing.New(fencing.Options{Client: api, Live: api, Identity: name, Duration: time.Second, LongestRequest: time.Millisecond, Now: now})
}

// TestTurns lets two schedulers follow one another, the first one without a
// word.
func TestTurns(t *testing.T) {
	api, ctx := testAPI(t), t.Context()
	clock := time.Date(2026, 5, 4, 14, 0, 0, 0, time.UTC)
	first := newFence(api, "first", func() time.Time { return clock })
	if _, err := first.Take(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := first.Check(ctx); !errors.Is(err, fencing.ErrDeposed) {
		t.Errorf("it may write before it has settled: %v", err)
	}
	for _, do := range []func(context.Context) error{first.Settle, first.Check, first.Renew} {
		if err := do(ctx); err != nil {
			t.Fatal(err)
		}
	}
	// While it renews, nobody takes over.
	soon, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	second := newFence(api, "second", func() time.Time { return clock })
	if _, err := second.Take(soon, 0); err == nil || !strings.Contains(err.Error(), `waiting for the scheduler "first"`) {
		t.Fatalf("taken from a live holder: %v", err)
	}
	// Once its lease has run out, the next begins where it left off.
	clock = clock.Add(time.Minute)
	state, err := second.Take(ctx, 0)
	if want := (fencing.State{Epoch: 2, Settled: 1}); err != nil || state != want {
		t.Fatalf("taken %+v, %v; want %+v", state, err, want)
	}
	for name, do := range map[string]func(context.Context) error{"check": first.Check, "renew": first.Renew, "settle": first.Settle, "release": first.Release} {
		if err := do(ctx); !errors.Is(err, fencing.ErrDeposed) {
			t.Errorf("%s of the first scheduler: %v; want that it is deposed", name, err)
		}
	}
	// What is let go of is taken at once, and what is known to be ended, too.
	if err := errors.Join(second.Settle(ctx), second.Release(ctx)); err != nil {
		t.Fatal(err)
	}
	if _, err := newFence(api, "third", func() time.Time { return clock }).Take(ctx, 0); err != nil {
		t.Fatal(err)
	}
	alone := fencing.New(fencing.Options{Client: api, Live: api, Alone: true})
	if state, err := alone.Take(ctx, 9); err != nil || state.Epoch != 10 || state.Settled != 2 {
		t.Errorf("taken %+v, %v; want epoch 10 after 9 was seen, settled 2", state, err)
	}
}

// TestHandsOver lets schedulers follow one another in order: what was settled
// stays, until one is not heard of.
func TestHandsOver(t *testing.T) {
	api, ctx := testAPI(t), t.Context()
	next := func(want fencing.State) *fencing.Fence {
		t.Helper()
		f := newFence(api, "one of many", time.Now)
		state, err := f.Take(ctx, 0)
		if err != nil || state != want {
			t.Fatalf("taken %+v, %v; want %+v", state, err, want)
		}
		return f
	}
	first := next(fencing.State{Epoch: 1})
	if err := errors.Join(first.Settle(ctx), first.HandOver(ctx)); err != nil {
		t.Fatal(err)
	}
	if err := first.Check(ctx); !errors.Is(err, fencing.ErrDeposed) {
		t.Errorf("it may write after it has handed over: %v", err)
	}
	second := next(fencing.State{Epoch: 2, Settled: 1, Closed: 1})
	if err := first.HandOver(ctx); !errors.Is(err, fencing.ErrDeposed) {
		t.Errorf("it hands over again, after another has taken over: %v", err)
	}
	if err := errors.Join(second.Settle(ctx), second.Check(ctx), second.Renew(ctx), second.HandOver(ctx)); err != nil {
		t.Fatal(err)
	}
	// One that takes it and does not get as far as to lead is not believed.
	third := next(fencing.State{Epoch: 3, Settled: 1, Closed: 2})
	fourth := newFence(api, "fourth", time.Now)
	if err := third.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if state, err := fourth.Take(ctx, 0); err != nil || state != (fencing.State{Epoch: 4, Settled: 1, Closed: 2}) || state.Continues() || !state.Adopts(1) {
		t.Fatalf("taken %+v, %v; want one that adopts everything", state, err)
	}
	if err := fourth.HandOver(ctx); err != nil {
		t.Fatal(err)
	}
	fifth := next(fencing.State{Epoch: 5, Settled: 1, Closed: 2})
	if err := fifth.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	if state, err := fencing.Read(ctx, api, "muster-system"); err != nil || state != (fencing.State{Epoch: 5, Settled: 5}) {
		t.Errorf("the fence says %+v, %v; want that all is adopted by epoch 5", state, err)
	}
}

// TestStrangeWord has the word of an orderly hand-over be one that cannot be:
// everything is adopted.
func TestStrangeWord(t *testing.T) {
	for _, text := range []string{"x", "-1", "3", "0", ""} {
		api, ctx := testAPI(t), t.Context()
		first := newFence(api, "first", time.Now)
		_, err := first.Take(ctx, 1)
		if err := errors.Join(err, first.Settle(ctx), first.HandOver(ctx)); err != nil {
			t.Fatal(err)
		}
		lease := &coordinationv1.Lease{}
		if err := api.Get(ctx, leaseKey, lease); err != nil || lease.Annotations["muster.dev/closed-epoch"] != "2" {
			t.Fatalf("annotations %v, %v", lease.Annotations, err)
		}
		lease.Annotations["muster.dev/closed-epoch"] = text
		if err := api.Update(ctx, lease); err != nil {
			t.Fatal(err)
		}
		if state, err := newFence(api, "second", time.Now).Take(ctx, 0); err != nil || state != (fencing.State{Epoch: 3, Settled: 2}) {
			t.Errorf("%q: taken %+v, %v", text, state, err)
		}
	}
}

func TestManyTakeAtOnce(t *testing.T) {
	api := testAPI(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	taken := map[int64]bool{}
	for range 8 {
		wg.Go(func() {
			state, err := fencing.New(fencing.Options{Client: api, Live: api, Alone: true}).Take(t.Context(), 0)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || taken[state.Epoch] {
				t.Errorf("epoch %d, %v", state.Epoch, err)
			}
			taken[state.Epoch] = true
		})
	}
	wg.Wait()
	if len(taken) != 8 || !taken[1] || !taken[8] {
		t.Errorf("epochs %v", taken)
	}
}

func TestDamagedLease(t *testing.T) {
	api, ctx := testAPI(t), t.Context()
	f := fencing.New(fencing.Options{Client: api, Live: api, Alone: true})
	if _, err := f.Take(ctx, 0); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"x", "-1", "2"} {
		lease := &coordinationv1.Lease{}
		if err := api.Get(ctx, leaseKey, lease); err != nil {
			t.Fatal(err)
		}
		lease.Annotations["muster.dev/settled-epoch"] = text
		if err := api.Update(ctx, lease); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Take(ctx, 0); err == nil || !strings.Contains(err.Error(), "must be a number from 0 to the lease's transitions, 1") {
			t.Errorf("settled %q: %v", text, err)
		}
	}
	if err := api.Delete(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseKey.Namespace, Name: leaseKey.Name}}); err != nil {
		t.Fatal(err)
	}
	if err := f.Renew(ctx); !errors.Is(err, fencing.ErrDeposed) || !strings.Contains(err.Error(), "somebody deleted it") {
		t.Errorf("without the lease: %v", err)
	}
}
