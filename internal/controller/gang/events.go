package gang

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// indexPod is the cache's index of events by the UID of the pod that they are about.
const indexPod = "pod"

func indexByPod(o client.Object) []string {
	if e, ok := o.(*corev1.Event); ok {
		return []string{string(e.InvolvedObject.UID)}
	}
	return nil
}

// Events is how a manager is to watch events for this controller: the warnings of
// pods alone, without fields that nothing here reads.
func Events() cache.ByObject {
	return cache.ByObject{
		Field: fields.AndSelectors(
			fields.OneTermEqualSelector("type", corev1.EventTypeWarning), fields.OneTermEqualSelector("involvedObject.kind", "Pod"),
		),
		Transform: cache.TransformStripManagedFields(),
	}
}

// warnings are the events of a pod in the cache, not to be changed.
func (c *Controller) warnings(ctx context.Context, p *corev1.Pod) []corev1.Event {
	var list corev1.EventList
	err := c.options.Client.List(ctx, &list, client.InNamespace(p.Namespace), client.MatchingFields{indexPod: string(p.UID)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil // the cache is stopping
	}
	return slices.DeleteFunc(slices.Clone(list.Items), func(e corev1.Event) bool { return e.InvolvedObject.UID != p.UID })
}

// byPod looks at the gang of the pod that an event is about.
func (c *Controller) byPod(ctx context.Context, o client.Object) []reconcile.Request {
	e, ok := o.(*corev1.Event)
	if !ok {
		return nil
	}
	p := &corev1.Pod{}
	if err := c.options.Client.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: e.InvolvedObject.Name}, p, client.UnsafeDisableDeepCopy); err != nil {
		return nil // it is gone
	}
	return byGang(ctx, p)
}
