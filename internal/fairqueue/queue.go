package fairqueue

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Limiter delays items that failed.
type Limiter = workqueue.TypedRateLimiter[reconcile.Request]

// Queue is a work queue that is fair by namespace. It implements
// priorityqueue.PriorityQueue.
type Queue struct {
	inner   workqueue.TypedRateLimitingInterface[reconcile.Request]
	limiter Limiter
	order   *order
}

var _ priorityqueue.PriorityQueue[reconcile.Request] = (*Queue)(nil)

// New makes the queue of a controller. It is a NewQueue of controller.Options.
func New(controller string, limiter Limiter) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return newQueue(controller, limiter, clock.RealClock{})
}

func newQueue(name string, limiter Limiter, now clock.WithTicker) *Queue {
	o := &order{lines: newLines[reconcile.Request](), wanted: map[reconcile.Request]int{}, taken: map[reconcile.Request]int{}}
	ready := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Clock: now, Queue: o})
	delayed := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{Name: name, Clock: now, Queue: ready})
	inner := workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{DelayingQueue: delayed})
	return &Queue{inner: inner, limiter: limiter, order: o}
}

// AddWithOpts adds items with a priority, at once or after a delay. An item that is added
// several times before it is served has the highest of its priorities.
func (q *Queue) AddWithOpts(o priorityqueue.AddOpts, items ...reconcile.Request) {
	if q.inner.ShuttingDown() {
		return
	}
	for _, item := range items {
		after := o.After
		if o.RateLimited {
			if limit := q.limiter.When(item); after == 0 || limit < after {
				after = limit
			}
		}
		q.order.want(item, ptr.Deref(o.Priority, 0))
		if after > 0 {
			q.inner.AddAfter(item, after)
		} else {
			q.inner.Add(item)
		}
	}
}

// Add adds an item with priority 0.
func (q *Queue) Add(item reconcile.Request) { q.AddWithOpts(priorityqueue.AddOpts{}, item) }

// GetWithPriority waits for the next item. The caller must call Done with it. Shutdown is
// true as soon as the queue shuts down, also if items wait.
func (q *Queue) GetWithPriority() (item reconcile.Request, priority int, shutdown bool) {
	item, shutdown = q.inner.Get()
	if shutdown {
		return reconcile.Request{}, 0, true
	}
	if q.inner.ShuttingDown() {
		q.Done(item)
		return reconcile.Request{}, 0, true
	}
	return item, q.order.takenAt(item), false
}

// Get waits for the next item, as GetWithPriority does.
func (q *Queue) Get() (item reconcile.Request, shutdown bool) {
	item, _, shutdown = q.GetWithPriority()
	return item, shutdown
}

// Done ends the work on an item.
func (q *Queue) Done(item reconcile.Request) {
	q.order.done(item)
	q.inner.Done(item)
}

// order is the order in which items are served. The inner queue calls Touch, Push, Len and Pop
// under its own lock.
type order struct {
	mu    sync.Mutex
	lines lines[reconcile.Request]
	// wanted are the priorities of items that the inner queue has not pushed yet: delayed
	// items, and items that a controller added again while a worker has them.
	wanted map[reconcile.Request]int
	// taken are the priorities of items that a worker has.
	taken map[reconcile.Request]int
}

// want notes the priority with which an item is added.
func (o *order) want(item reconcile.Request, priority int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if before, ok := o.wanted[item]; !ok || priority > before {
		o.wanted[item] = priority
	}
}

// Push adds an item that does not wait yet.
func (o *order) Push(item reconcile.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines.push(item, item.Namespace, o.wanted[item])
	delete(o.wanted, item)
}

// Touch raises the priority of an item that waits.
func (o *order) Touch(item reconcile.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if priority, ok := o.wanted[item]; ok {
		o.lines.push(item, item.Namespace, priority)
		delete(o.wanted, item)
	}
}

// Len is the number of items that wait.
func (o *order) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lines.len()
}

// Pop takes the next item. The inner queue calls it only if there is one.
func (o *order) Pop() reconcile.Request {
	o.mu.Lock()
	defer o.mu.Unlock()
	item, priority, ok := o.lines.pop()
	if ok {
		o.taken[item] = priority
	}
	return item
}

func (o *order) takenAt(item reconcile.Request) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.taken[item]
}

func (o *order) done(item reconcile.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.taken, item)
}
