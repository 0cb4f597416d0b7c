package snapshot

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/scheduling/queue"
	"github.com/muster-dev/muster/internal/scheduling/queue/manifest"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// How often a queue's status is written: its use at most every few seconds,
// its decayed usage, which only a new scheduler reads, every few minutes.
const (
	useEvery   = 5 * time.Second
	decayEvery = 5 * time.Minute
)

// tellQueues writes how the queues stand into their status, where that has
// changed and was not written a moment ago. It returns when it wants to be
// called again, zero if not.
func (l *Loop) tellQueues(ctx context.Context, now time.Time) time.Time {
	queues := l.mirror.queueObjects()
	if len(queues) == 0 {
		return time.Time{}
	}
	if due := l.queuesTold.Add(useEvery); now.Before(due) {
		return due
	}
	l.queuesTold = now
	standing := l.core.Standing()
	for _, q := range queues {
		before := q.DeepCopy()
		after := before.DeepCopy()
		stand(after, standing, now)
		if equality.Semantic.DeepEqual(before.Status, after.Status) {
			continue
		}
		l.report(ctx, "", func() {
			err := l.options.Client.Status().Patch(ctx, after, client.MergeFrom(before))
			if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
				l.options.Log.Error(err, "writing how a queue stands; it is written again", "queue", after.Name)
			}
		})
	}
	return time.Time{}
}

// memories are what the status of queues says of their usage.
func memories(queues []v1alpha1.Queue) []queue.Recollection {
	var out []queue.Recollection
	for i := range queues {
		if s := &queues[i].Status; s.DecayedAt != nil {
			out = append(out, queue.Recollection{
				Queue: queues[i].Name, At: int64(conversion.Instant(s.DecayedAt.Time)),
				Used: manifest.Amounts(s.Used), Decayed: manifest.Amounts(s.DecayedUsage),
			})
		}
	}
	return out
}

// stand fills in a queue's status.
func stand(q *v1alpha1.Queue, s scheduling.Standing, now time.Time) {
	id, ok := s.Tree.Find(q.Name)
	if !ok {
		return
	}
	classes, status := s.Tree.Classes(), &q.Status
	status.Used = manifest.Quantities(classes, func(c queue.Class) int64 { return s.Tree.Used(id, c) })
	status.Borrowed = manifest.Quantities(classes, func(c queue.Class) int64 { return s.Tree.Borrowed(id, c) })
	status.Running, status.Waiting = count(s.Tree, id, s.Running), count(s.Tree, id, s.Waiting)
	if status.DecayedAt == nil || now.Sub(status.DecayedAt.Time).Abs() >= decayEvery {
		at := metav1.NewTime(now.Truncate(time.Second))
		status.DecayedAt = &at
		status.DecayedUsage = manifest.Quantities(classes, func(c queue.Class) int64 { return int64(s.Tree.Decayed(id, c)) })
	}
	status.ObservedGeneration = q.Generation
	condition := metav1.Condition{
		Type: v1alpha1.ConditionValid, Status: metav1.ConditionTrue, Reason: v1alpha1.QueueReasonValid,
		ObservedGeneration: q.Generation,
	}
	for _, p := range s.Problems {
		if p.Queue == q.Name {
			condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, manifest.Faults[p.Fault], p.String()
			break
		}
	}
	meta.SetStatusCondition(&status.Conditions, condition)
}

// count adds up the requests of a queue and all below it.
func count(t *queue.Tree, id queue.Queue, of map[string]int32) int32 {
	sum := of[t.Name(id)]
	for _, child := range t.Children(id, nil) {
		sum += count(t, child, of)
	}
	return sum
}
