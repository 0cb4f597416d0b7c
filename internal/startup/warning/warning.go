// Package warning reads the warnings that nodes wrote about pods from a manager's cache.
//
// It must not know their meaning, or its callers.
package warning

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// byPod is the cache's index of events by the UID of the pod that they are about.
const byPod = "pod"

// Cache configures a manager's watch of events: only warnings about pods, without fields that are
// not read.
func Cache() cache.ByObject {
	return cache.ByObject{
		Field: fields.AndSelectors(
			fields.OneTermEqualSelector("type", corev1.EventTypeWarning), fields.OneTermEqualSelector("involvedObject.kind", "Pod"),
		),
		Transform: cache.TransformStripManagedFields(),
	}
}

// Index makes a manager's cache index events by their pod. It is called once, before the manager
// starts.
func Index(mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.Event{}, byPod, func(o client.Object) []string {
		if e, ok := o.(*corev1.Event); ok {
			return []string{string(e.InvolvedObject.UID)}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing events: %w", err)
	}
	return nil
}

// Of are the warnings of a pod in the cache, not to be changed.
func Of(ctx context.Context, cached client.Reader, p *corev1.Pod) []corev1.Event {
	var list corev1.EventList
	err := cached.List(ctx, &list, client.InNamespace(p.Namespace), client.MatchingFields{byPod: string(p.UID)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil // the cache is stopping
	}
	return list.Items
}
