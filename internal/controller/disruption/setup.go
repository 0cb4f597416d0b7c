package disruption

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fairqueue"
)

// indexNode is the cache's index of members by their node. Pods that are of no
// gang are not in it.
const indexNode = "members/spec.nodeName"

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// SetupWithManager registers the controllers of guards and of budgets.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	c.client = mgr.GetClient()
	index := func(o client.Object) []string {
		if p, ok := o.(*corev1.Pod); ok && p.Labels[v1alpha1.LabelGang] != "" && p.Spec.NodeName != "" {
			return []string{p.Spec.NodeName}
		}
		return nil
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, indexNode, index); err != nil {
		return fmt.Errorf("setting up the guard of members: indexing pods: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("guard").
		Watches(&corev1.Node{}, handler.Funcs{
			CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { enqueueNode(q, e.Object, true) },
			UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
				before, ok := e.ObjectOld.(*corev1.Node)
				after, too := e.ObjectNew.(*corev1.Node)
				enqueueNode(q, e.ObjectNew, ok && too && open(before, c.options.Signs) != open(after, c.options.Signs))
			},
		}).
		// Made with the guard up, on a node that was cordoned since it was planned.
		Watches(&corev1.Pod{}, handler.Funcs{
			CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
				p, ok := e.Object.(*corev1.Pod)
				if !ok || p.Labels[v1alpha1.LabelGuarded] == "" {
					return
				}
				n := &corev1.Node{}
				if err := c.client.Get(ctx, types.NamespacedName{Name: p.Spec.NodeName}, n, client.UnsafeDisableDeepCopy); err == nil {
					enqueueNode(q, n, open(n, c.options.Signs))
				}
			},
		}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, NewQueue: fairqueue.New}).
		Complete(reconcile.Func(c.guard))
	if err != nil {
		return fmt.Errorf("setting up the guard of members: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).Named("budget").
		Watches(&v1alpha1.Gang{}, handler.Funcs{
			CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
				if g, ok := e.Object.(*v1alpha1.Gang); ok && guards(g) {
					enqueueNamespace(q, g)
				}
			},
		}).
		Watches(&policyv1.PodDisruptionBudget{}, handler.Funcs{
			DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
				if e.Object.GetName() == v1alpha1.GuardBudget && c.hasGuarded(ctx, e.Object.GetNamespace()) {
					enqueueNamespace(q, e.Object)
				}
			},
		}).
		WithOptions(controller.Options{NewQueue: fairqueue.New}).
		Complete(reconcile.Func(c.allot))
	if err != nil {
		return fmt.Errorf("setting up the disruption budgets: %w", err)
	}
	return nil
}

func enqueueNode(q queue, o client.Object, matters bool) {
	if matters {
		q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: o.GetName()}})
	}
}

func enqueueNamespace(q queue, o client.Object) {
	q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: o.GetNamespace()}})
}

// hasGuarded reports whether a namespace has a gang of several members.
func (c *Controller) hasGuarded(ctx context.Context, namespace string) bool {
	gangs := &v1alpha1.GangList{}
	if err := c.client.List(ctx, gangs, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false // the cache is stopping
	}
	for i := range gangs.Items {
		if guards(&gangs.Items[i]) {
			return true
		}
	}
	return false
}
