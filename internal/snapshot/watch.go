package snapshot

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// kinds are those of which a change may trigger a pass.
func kinds() []client.Object {
	return []client.Object{&corev1.Node{}, &v1alpha1.Gang{}, &v1alpha1.Placement{}, &corev1.Pod{}, &schedulingv1.PriorityClass{}, &v1alpha1.Queue{}, &corev1.Namespace{}, &corev1.ResourceQuota{},
		&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &resourcev1.ResourceSlice{}, &resourcev1.ResourceClaim{}}
}

// Warm fills the cache that this loop will read, before it is run: where it
// stands by for another, it then begins without reading everything there is.
func (l *Loop) Warm(ctx context.Context) error {
	for _, kind := range kinds() {
		if _, err := l.options.Cache.GetInformer(ctx, kind); err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
	}
	return nil
}

// watch registers what triggers a pass and waits until everything that exists
// has been shown to it once.
func (l *Loop) watch(ctx context.Context) error {
	var synced []toolscache.InformerSynced
	for _, kind := range kinds() {
		informer, err := l.options.Cache.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
		handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { l.shown(nil, obj) },
			UpdateFunc: l.shown,
			DeleteFunc: l.gone,
		})
		if err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
		synced = append(synced, handle.HasSynced)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return fmt.Errorf("filling the scheduler's cache: %w", context.Cause(ctx))
	}
	return nil
}

// shown handles an object that the watch added or changed.
func (l *Loop) shown(before, after any) {
	old, had := before.(client.Object)
	object, ok := after.(client.Object)
	if !ok {
		return
	}
	if had && old.GetUID() != object.GetUID() {
		l.gone(old)
		before = nil
	}
	if before == nil || old.GetResourceVersion() != object.GetResourceVersion() || object.GetResourceVersion() == "" {
		l.mirror.shown(object)
	}
	if _, claim := object.(*resourcev1.ResourceClaim); claim {
		l.claimsChanged()
		return
	}
	switch obj := after.(type) {
	case *v1alpha1.Placement:
		l.assumed.seen(obj)
	case *corev1.Pod:
		if obj.Spec.NodeName != "" {
			l.assumed.noBinding(obj.UID)
		}
	}
	changed := before == nil || matters(before, after)
	switch after.(type) {
	case *corev1.ResourceQuota, *corev1.PersistentVolumeClaim, *schedulingv1.PriorityClass:
		if changed {
			l.lessons.Hurry(object.GetNamespace())
		}
	}
	if changed && (before != nil || !idle(object)) {
		l.trigger()
	}
}

// gone handles an object that was deleted.
func (l *Loop) gone(obj any) {
	if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if object, ok := obj.(client.Object); ok {
		l.mirror.gone(object)
	}
	if _, claim := obj.(*resourcev1.ResourceClaim); claim {
		l.claimsChanged()
		return
	}
	switch obj := obj.(type) {
	case *v1alpha1.Placement:
		l.assumed.seen(obj)
		l.assumed.left(obj.UID)
	case *corev1.Pod:
		l.assumed.noBinding(obj.UID)
	}
	l.trigger()
}

// claimsChanged asks for a pass if claims of others have changed: those of members change
// by the thousand, and no decision depends on them.
func (l *Loop) claimsChanged() {
	l.mirror.mu.Lock()
	changed := l.mirror.book.Changed()
	l.mirror.mu.Unlock()
	if changed {
		l.trigger()
	}
}

// idle reports whether an object that is new changes no decision: a claim that is
// not bound yet.
func idle(object client.Object) bool {
	claim, is := object.(*corev1.PersistentVolumeClaim)
	return is && claim.Spec.VolumeName == ""
}

// sameTruths reports whether the same conditions hold on a node: some say that it
// is about to go.
func sameTruths(a, b *corev1.Node) bool {
	if len(a.Status.Conditions) != len(b.Status.Conditions) {
		return false
	}
	for i := range a.Status.Conditions {
		x, y := &a.Status.Conditions[i], &b.Status.Conditions[i]
		if x.Type != y.Type || x.Status != y.Status || x.Reason != y.Reason {
			return false
		}
	}
	return true
}

// matters reports whether a change can change a decision: heartbeats, probes
// and messages cannot.
func matters(before, after any) bool {
	switch b := after.(type) {
	case *corev1.Node:
		a := before.(*corev1.Node)
		return a.Spec.Unschedulable != b.Spec.Unschedulable || conversion.NotReady(a) != conversion.NotReady(b) || !sameTruths(a, b) ||
			a.Annotations[v1alpha1.AnnotationInventory] != b.Annotations[v1alpha1.AnnotationInventory] ||
			!equality.Semantic.DeepEqual(a.Labels, b.Labels) || !equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) ||
			!equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
	case *v1alpha1.Gang:
		a := before.(*v1alpha1.Gang)
		return a.Generation != b.Generation || a.Status.Phase != b.Status.Phase || a.Status.Outcome != b.Status.Outcome ||
			a.Status.Attempt != b.Status.Attempt || !a.Status.NotBefore.Equal(b.Status.NotBefore) || !a.Status.GrowNotBefore.Equal(b.Status.GrowNotBefore) ||
			(a.Status.AllStartedTime == nil) != (b.Status.AllStartedTime == nil) ||
			!equality.Semantic.DeepEqual(a.Status.Avoided, b.Status.Avoided) ||
			len(a.Status.Done) != len(b.Status.Done) || (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil)
	case *v1alpha1.Queue:
		return before.(*v1alpha1.Queue).Generation != b.Generation
	case *corev1.ResourceQuota:
		a := before.(*corev1.ResourceQuota)
		return a.Generation != b.Generation || !equality.Semantic.DeepEqual(a.Spec, b.Spec) || !equality.Semantic.DeepEqual(a.Status, b.Status)
	case *resourcev1.ResourceSlice:
		return !equality.Semantic.DeepEqual(before.(*resourcev1.ResourceSlice).Spec, b.Spec)
	case *corev1.PersistentVolumeClaim:
		return before.(*corev1.PersistentVolumeClaim).Spec.VolumeName != b.Spec.VolumeName
	case *corev1.PersistentVolume:
		return !equality.Semantic.DeepEqual(affinityOf(before.(*corev1.PersistentVolume)), affinityOf(b))
	case *corev1.Namespace:
		return b.Name == v1alpha1.SystemNamespace && before.(*corev1.Namespace).Annotations[v1alpha1.AnnotationPaused] != b.Annotations[v1alpha1.AnnotationPaused]
	case *corev1.Pod:
		a := before.(*corev1.Pod)
		return a.Spec.NodeName != b.Spec.NodeName || conversion.Ended(a) != conversion.Ended(b) || a.UID != b.UID ||
			len(a.Spec.SchedulingGates) != len(b.Spec.SchedulingGates) || (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil) ||
			a.Annotations[v1alpha1.AnnotationGPUs] != b.Annotations[v1alpha1.AnnotationGPUs] ||
			a.Annotations[v1alpha1.AnnotationGPUShare] != b.Annotations[v1alpha1.AnnotationGPUShare] ||
			a.Annotations[v1alpha1.AnnotationGPUModels] != b.Annotations[v1alpha1.AnnotationGPUModels]
	}
	return true
}
