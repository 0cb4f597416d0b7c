package fairqueue

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// AddAfter adds an item with priority 0 after a delay.
func (q *Queue) AddAfter(item reconcile.Request, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, item)
}

// AddRateLimited adds an item with priority 0 after the delay of the limiter.
func (q *Queue) AddRateLimited(item reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, item)
}

// Forget makes the limiter forget the failures of an item.
func (q *Queue) Forget(item reconcile.Request) { q.inner.Forget(item) }

// NumRequeues is how often the limiter delayed an item.
func (q *Queue) NumRequeues(item reconcile.Request) int { return q.inner.NumRequeues(item) }

// Len is the number of waiting items, without delayed items.
func (q *Queue) Len() int { return q.inner.Len() }

// ShutDown ends the queue, and drops waiting items.
func (q *Queue) ShutDown() { q.inner.ShutDown() }

// ShutDownWithDrain ends the queue, and waits until the workers are done with their items.
func (q *Queue) ShutDownWithDrain() { q.inner.ShutDownWithDrain() }

// ShuttingDown reports whether the queue was shut down.
func (q *Queue) ShuttingDown() bool { return q.inner.ShuttingDown() }
