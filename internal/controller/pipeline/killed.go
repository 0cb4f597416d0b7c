package pipeline

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/pipeline/ending"
)

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// onPods notes how workers end: a job that starts again deletes their pods.
func (c *Runs) onPods() handler.EventHandler {
	note := func(o client.Object) {
		if pod, ok := o.(*corev1.Pod); ok {
			c.ends.Note(pod)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ requests) { note(e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ requests) { note(e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ requests) { note(e.Object) },
	}
}

// workerEnded returns a function that returns why a worker of a job has ended. The status of its
// pod has the reason, also if the kernel killed the worker together with its program.
func (c *Runs) workerEnded(namespace, job string) func(context.Context, string, time.Time) (string, bool) {
	return func(ctx context.Context, member string, since time.Time) (string, bool) {
		role, index, ok := strings.Cut(member, "/")
		if !ok {
			return "", true
		}
		if end := c.ends.Last(ending.Member{Namespace: namespace, Job: job, Role: role, Index: index}); end.After(since) {
			return end.Reason, true
		}
		pods := &corev1.PodList{}
		labels := client.MatchingLabels{v1alpha1.LabelJob: job, v1alpha1.LabelRole: role, v1alpha1.LabelIndex: index}
		if err := c.live.List(ctx, pods, client.InNamespace(namespace), labels); err != nil {
			return "", false
		}
		vain := true
		for i := range pods.Items {
			pod := &pods.Items[i]
			if end := ending.Of(pod); end.After(since) {
				return end.Reason, true
			}
			vain = vain && pod.CreationTimestamp.After(since) // it is of the next worker
		}
		return "", vain
	}
}
