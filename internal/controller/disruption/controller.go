package disruption

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/departure"
)

// Options are what the controllers need.
type Options struct {
	// Signs tell that a node is about to go. Default: [departure.Known].
	Signs departure.Signs
}

// Controller keeps the guards of members, by node, and the budgets, by
// namespace.
type Controller struct {
	options Options
	client  client.Client
}

// New returns a controller, which does nothing until it is set up.
func New(options Options) *Controller {
	if options.Signs == nil {
		options.Signs = departure.Known()
	}
	return &Controller{options: options}
}

// guard lets down or raises the guard of every member on one node.
func (c *Controller) guard(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	n := &corev1.Node{}
	if err := c.client.Get(ctx, req.NamespacedName, n); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading node %s: %w", req.Name, err)
	}
	pods := &corev1.PodList{}
	if err := c.client.List(ctx, pods, client.MatchingFields{indexNode: n.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the members on node %s: %w", n.Name, err)
	}
	opened := open(n, c.options.Signs)
	for i := range pods.Items {
		p := &pods.Items[i]
		if wrong, want := relabel(p, opened, c.guarded(ctx, p)); wrong {
			if err := c.label(ctx, p, want); err != nil {
				return ctrl.Result{}, err
			}
		}
	}
	return ctrl.Result{}, nil
}

// guarded reports whether the gang of a pod is one of several members.
func (c *Controller) guarded(ctx context.Context, p *corev1.Pod) bool {
	g := &v1alpha1.Gang{}
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil {
		return false
	}
	err := c.client.Get(ctx, types.NamespacedName{Namespace: p.Namespace, Name: owner.Name}, g)
	return err == nil && owner.UID == g.UID && guards(g)
}

// label sets or removes the label of the very pod that was seen.
func (c *Controller) label(ctx context.Context, p *corev1.Pod, guarded bool) error {
	var value *string
	if guarded {
		yes := "true"
		value = &yes
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID, "labels": map[string]*string{v1alpha1.LabelGuarded: value}}})
	if err != nil {
		return fmt.Errorf("writing a label: %w", err)
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	err = c.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("labelling pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// allot makes the budget of one namespace, where there is none.
func (c *Controller) allot(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	err := c.client.Get(ctx, types.NamespacedName{Namespace: req.Name, Name: v1alpha1.GuardBudget}, &policyv1.PodDisruptionBudget{})
	if err == nil {
		return ctrl.Result{}, nil
	}
	if !apierrors.IsNotFound(err) {
		return ctrl.Result{}, fmt.Errorf("reading the disruption budget of namespace %s: %w", req.Name, err)
	}
	err = c.client.Create(ctx, budget(req.Name))
	if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, fmt.Errorf("making the disruption budget of namespace %s: %w", req.Name, err)
}
