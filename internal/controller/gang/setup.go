package gang

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fairqueue"
	"github.com/muster-dev/muster/internal/startup/warning"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// SetupWithManager registers the controller and what it watches: gangs, the
// placements and pods of each, and quotas.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	for _, kind := range []client.Object{&corev1.Pod{}, &v1alpha1.Placement{}} {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), kind, indexGang, indexByGang); err != nil {
			return fmt.Errorf("setting up the gang controller: indexing %T: %w", kind, err)
		}
	}
	if err := warning.Index(mgr); err != nil {
		return fmt.Errorf("setting up the gang controller: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("gang").
		For(&v1alpha1.Gang{}).
		Watches(&v1alpha1.Gang{}, handler.Funcs{
			UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
				if e.ObjectNew.GetAnnotations()[v1alpha1.AnnotationEvict] != e.ObjectOld.GetAnnotations()[v1alpha1.AnnotationEvict] {
					hurry(q, client.ObjectKeyFromObject(e.ObjectNew))
				}
			},
		}).
		Watches(&v1alpha1.Placement{}, handler.EnqueueRequestsFromMapFunc(byGang)).
		Watches(&corev1.Pod{}, handler.Funcs{
			CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { enqueue(q, e.Object) },
			UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { enqueue(q, e.ObjectNew) },
			DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
				if p, ok := e.Object.(*corev1.Pod); ok && gangOf(p) != "" {
					c.buried(p)
					c.mourn(p)
				}
				enqueue(q, e.Object)
			},
		}).
		Watches(&corev1.Node{}, c.onNodes()).
		Watches(&corev1.Event{}, handler.EnqueueRequestsFromMapFunc(c.byPod)).
		Watches(&corev1.ResourceQuota{}, handler.Funcs{
			UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
				before, ok := e.ObjectOld.(*corev1.ResourceQuota)
				after, too := e.ObjectNew.(*corev1.ResourceQuota)
				// What is used of it changes with every pod, also with those
				// of an attempt that is refused: not a reason to try again.
				if ok && too && !equality.Semantic.DeepEqual(before.Status.Hard, after.Status.Hard) {
					c.allow(ctx, q, after.Namespace)
				}
			},
			DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { c.allow(ctx, q, e.Object.GetNamespace()) },
		}).
		WithOptions(controller.Options{MaxConcurrentReconciles: c.options.Concurrency, NewQueue: fairqueue.New}).
		Complete(c)
	if err != nil {
		return fmt.Errorf("setting up the gang controller: %w", err)
	}
	return nil
}

// first is the priority of gangs that were ordered to make room: somebody waits for each of
// them, and nobody for what is tidied up after those who did.
const first = 10

// hurry has a gang looked at before others that wait for it.
func hurry(q queue, gang types.NamespacedName) {
	r := reconcile.Request{NamespacedName: gang}
	if p, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		p.AddWithOpts(priorityqueue.AddOpts{Priority: new(first)}, r)
		return
	}
	q.Add(r)
}

// allow lets the gangs of a namespace that were refused try again at once: its
// quota was changed.
func (c *Controller) allow(ctx context.Context, q queue, namespace string) {
	gangs := &v1alpha1.GangList{}
	if err := c.options.Client.List(ctx, gangs, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return // the cache is stopping; without this they try again after their back-off
	}
	for i := range gangs.Items {
		g := &gangs.Items[i]
		if g.Status.Refusals == 0 || g.Status.NotBefore == nil {
			continue
		}
		key := client.ObjectKeyFromObject(g)
		c.mu.Lock()
		c.allowed[key] = true
		c.mu.Unlock()
		q.Add(reconcile.Request{NamespacedName: key})
	}
}

// isAllowed reports whether a gang's quota was changed since it was refused.
func (c *Controller) isAllowed(key types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.allowed[key]
}

// request names the gang that an object belongs to.
func request(o client.Object) (reconcile.Request, bool) {
	gang := gangOf(o)
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: gang}}, gang != ""
}

func enqueue(q queue, o client.Object) {
	if r, ok := request(o); ok {
		q.Add(r)
	}
}

// byPod enqueues the gang of the pod of an event.
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

func byGang(_ context.Context, o client.Object) []reconcile.Request {
	if r, ok := request(o); ok {
		return []reconcile.Request{r}
	}
	return nil
}
