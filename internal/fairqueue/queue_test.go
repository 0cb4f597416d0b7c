package fairqueue

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocks "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var _ = controller.Options{NewQueue: New}

func limiter() Limiter {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute)
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func newTestQueue(t *testing.T) (*Queue, *clocks.FakeClock) {
	now := clocks.NewFakeClock(time.Unix(1000, 0))
	q := newQueue("", limiter(), now)
	t.Cleanup(q.ShutDown)
	return q, now
}

// served takes and ends n items.
func served(t *testing.T, q *Queue, n int) []string {
	t.Helper()
	var out []string
	for range n {
		item, priority, shutdown := q.GetWithPriority()
		if shutdown {
			t.Fatal("the queue shut down")
		}
		out = append(out, fmt.Sprintf("%s at %d", item, priority))
		q.Done(item)
	}
	return out
}

func wantServed(t *testing.T, q *Queue, want ...string) {
	t.Helper()
	if got := served(t, q, len(want)); !slices.Equal(got, want) || q.Len() != 0 {
		t.Errorf("served %q and %d wait, want %q", got, q.Len(), want)
	}
}

func TestOrder(t *testing.T) {
	q, _ := newTestQueue(t)
	for i := range 3 {
		q.Add(request("eve", fmt.Sprint(i)))
	}
	q.Add(request("ada", "1"))
	q.Add(request("", "node-1"))
	q.Add(request("", "node-2"))
	q.AddWithOpts(priorityqueue.AddOpts{Priority: new(-100)}, request("bob", "old"), request("eve", "0"))
	q.AddWithOpts(priorityqueue.AddOpts{Priority: new(10)}, request("eve", "2"))
	wantServed(t, q, "eve/2 at 10", "eve/0 at 0", "ada/1 at 0", "/node-1 at 0", "eve/1 at 0", "/node-2 at 0", "bob/old at -100")
}

// An item that is added while it is worked on is served again, with the highest priority.
func TestAddedWhileWorkedOn(t *testing.T) {
	q, _ := newTestQueue(t)
	item := request("ada", "1")
	q.Add(item)
	q.Get()
	q.AddWithOpts(priorityqueue.AddOpts{Priority: new(10)}, item)
	q.Add(item)
	if q.Len() != 0 {
		t.Errorf("%d items wait while one is worked on, want 0", q.Len())
	}
	q.Done(item)
	wantServed(t, q, "ada/1 at 10")
	if len(q.order.wanted) != 0 || len(q.order.taken) != 0 {
		t.Errorf("kept of an item that is done: wanted %v, taken %v", q.order.wanted, q.order.taken)
	}
}

func TestDelays(t *testing.T) {
	q, now := newTestQueue(t)
	item := request("ada", "1")
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true, Priority: new(-100)}, item) // a second
	if q.NumRequeues(item) != 1 {
		t.Errorf("%d requeues, want 1", q.NumRequeues(item))
	}
	now.Step(time.Second)
	wantServed(t, q, "ada/1 at -100")
	q.AddRateLimited(item) // two seconds
	q.AddAfter(item, time.Second)
	now.Step(time.Second)
	wantServed(t, q, "ada/1 at 0")
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true, After: time.Second}, item) // the shorter one
	now.Step(time.Second)
	wantServed(t, q, "ada/1 at 0")
	if q.Forget(item); q.NumRequeues(item) != 0 {
		t.Errorf("%d requeues of a forgotten item", q.NumRequeues(item))
	}
}

// On shutdown the queue drops waiting items, as controller-runtime's queue does.
func TestShutDown(t *testing.T) {
	q, _ := newTestQueue(t)
	for i := range 3 {
		q.Add(request("ada", fmt.Sprint(i)))
	}
	item, _ := q.Get()
	q.ShutDown()
	if !q.ShuttingDown() {
		t.Error("the queue does not shut down")
	}
	q.Add(request("ada", "late"))
	if next, shutdown := q.Get(); !shutdown || next != (reconcile.Request{}) {
		t.Errorf("%v is served after the end", next)
	}
	q.Done(item)
	if len(q.order.wanted) != 0 || len(q.order.taken) != 0 {
		t.Errorf("kept after the end: wanted %v, taken %v", q.order.wanted, q.order.taken)
	}
}

// Many workers serve each item at least once after each time it was added, and no item twice
// at once.
func TestWorkers(t *testing.T) {
	q, _ := newTestQueue(t)
	const each, namespaces, workers = 200, 8, 8
	var versions, seen [namespaces][each]atomic.Int64
	var working [namespaces][each]atomic.Bool
	var adding, serving sync.WaitGroup
	for range workers {
		serving.Go(func() {
			for {
				item, shutdown := q.Get()
				if shutdown {
					return
				}
				var n, i int
				if _, err := fmt.Sscanf(item.String(), "%d/%d", &n, &i); err != nil {
					t.Error(err)
				}
				if !working[n][i].CompareAndSwap(false, true) {
					t.Errorf("%s is served twice at once", item)
				}
				seen[n][i].Store(versions[n][i].Load())
				working[n][i].Store(false)
				q.Done(item)
			}
		})
	}
	for n := range namespaces {
		adding.Go(func() {
			for k := range 10 * each {
				i := k * 7 % each
				versions[n][i].Add(1)
				q.AddWithOpts(priorityqueue.AddOpts{Priority: new(k % 3)}, request(fmt.Sprint(n), fmt.Sprint(i)))
			}
		})
	}
	adding.Wait()
	// On shutdown the queue drops waiting items, and also items that were added again while
	// a worker has them. So the test first waits until the workers have served all items.
	limit := time.Now().Add(30 * time.Second)
	for n := range namespaces {
		for i := range each {
			for seen[n][i].Load() != 10 {
				if runtime.Gosched(); time.Now().After(limit) {
					t.Fatalf("item %d/%d was served last as of version %d, want 10", n, i, seen[n][i].Load())
				}
			}
		}
	}
	q.ShutDownWithDrain()
	serving.Wait()
}

// The metrics have the names of controller-runtime's own queues.
func TestMetrics(t *testing.T) {
	q := New("fairqueue-test", limiter())
	defer q.ShutDown()
	q.Add(request("ada", "1"))
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if l.GetName() == "controller" && l.GetValue() == "fairqueue-test" {
					got[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
				}
			}
		}
	}
	for _, name := range []string{"workqueue_queue_duration_seconds", "workqueue_work_duration_seconds", "workqueue_unfinished_work_seconds", "workqueue_retries_total"} {
		if _, ok := got[name]; !ok {
			t.Errorf("the metric %s is missing", name)
		}
	}
	if got["workqueue_depth"] != 1 || got["workqueue_adds_total"] != 1 {
		t.Errorf("depth %v and adds %v after one Add, want 1 and 1", got["workqueue_depth"], got["workqueue_adds_total"])
	}
}

// BenchmarkQueue adds, takes and ends 2,000 items of one namespace and one of another. It
// compares with the queues of client-go and of controller-runtime.
func BenchmarkQueue(b *testing.B) {
	queues := map[string]func() workqueue.TypedRateLimitingInterface[reconcile.Request]{
		"fair": func() workqueue.TypedRateLimitingInterface[reconcile.Request] { return New("", limiter()) },
		"client-go": func() workqueue.TypedRateLimitingInterface[reconcile.Request] {
			return workqueue.NewTypedRateLimitingQueue(limiter())
		},
		"controller-runtime": func() workqueue.TypedRateLimitingInterface[reconcile.Request] {
			return priorityqueue.New[reconcile.Request]("")
		},
	}
	items := []reconcile.Request{request("ada", "1")}
	for i := range 2000 {
		items = append(items, request("eve", fmt.Sprint(i)))
	}
	spent := map[string]time.Duration{}
	for b.Loop() {
		for name, make := range queues {
			q := make()
			began := time.Now()
			for _, item := range items {
				q.Add(item)
			}
			for range items {
				item, _ := q.Get()
				q.Done(item)
			}
			spent[name] += time.Since(began)
			q.ShutDown()
		}
	}
	per := float64(b.N * len(items))
	b.ReportMetric(float64(spent["fair"].Nanoseconds())/per, "ns/item")
	b.ReportMetric(float64(spent["fair"])/float64(spent["client-go"]), "x-client-go")
	b.ReportMetric(float64(spent["fair"])/float64(spent["controller-runtime"]), "x-controller-runtime")
}
