package deviceclaim

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/denial"
	"github.com/muster-dev/muster/internal/fairqueue"
	"github.com/muster-dev/muster/internal/inventory"
)

// Options are what the controller needs.
type Options struct {
	// Client reads from the informer cache and writes to the API server.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Controller makes and allocates claims.
type Controller struct{ options Options }

// slicesByNode indexes slices by their node, and claimsByDevice claims by the devices that
// they have.
const (
	slicesByNode   = "spec.nodeName"
	claimsByDevice = "status.allocation.devices"
)

const (
	// width is how many claims are written side by side.
	width = 32
	// again is the pause before a pod is looked at again whose GPUs its node
	// does not name now: its driver may be away.
	again = 2 * time.Second
)

// New returns the controller; [Controller.SetupWithManager] gives it to a
// manager.
func New(o Options) *Controller {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Controller{options: o}
}

// SetupWithManager adds it to the manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &resourcev1.ResourceSlice{}, slicesByNode, func(o client.Object) []string {
		if s, ok := o.(*resourcev1.ResourceSlice); ok && s.Spec.NodeName != nil {
			return []string{*s.Spec.NodeName}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing slices by node: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &resourcev1.ResourceClaim{}, claimsByDevice, devicesOf); err != nil {
		return fmt.Errorf("indexing claims by device: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("deviceclaim").
		For(&corev1.Pod{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			p, ok := o.(*corev1.Pod)
			if !ok {
				return false
			}
			name, _ := claimName(p)
			return name != ""
		}))).
		Owns(&resourcev1.ResourceClaim{}, builder.WithPredicates(predicate.NewPredicateFuncs(ofMuster))).
		Watches(&resourcev1.ResourceClaim{}, handler.EnqueueRequestsFromMapFunc(c.rivals), builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			return len(devicesOf(o)) > 0
		}))).
		WithOptions(controller.Options{MaxConcurrentReconciles: width, NewQueue: fairqueue.New}).
		Complete(c)
	if err != nil {
		return fmt.Errorf("setting up the controller of claims: %w", err)
	}
	return nil
}

// Reconcile looks after the claim of one pod.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := c.options.Client.Get(ctx, req.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	name, member := claimName(pod)
	if name == "" || ended(pod) {
		return reconcile.Result{}, nil
	}
	claim := &resourcev1.ResourceClaim{}
	err := c.options.Client.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: name}, claim)
	switch {
	case apierrors.IsNotFound(err) && (pod.DeletionTimestamp != nil || !member):
		return reconcile.Result{}, nil
	case apierrors.IsNotFound(err):
		claim, err = c.make(ctx, pod, name)
		if denial.NotNow(err) || denial.Never(err) {
			return reconcile.Result{}, c.giveBack(ctx, pod, v1alpha1.ReasonUnclaimed, words(err))
		}
		if err != nil {
			return reconcile.Result{}, err
		}
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading claim %s/%s: %w", pod.Namespace, name, err)
	}
	if inventory.Reserved(claim, pod.UID) {
		if given, err := c.yield(ctx, pod, claim, member); given || err != nil {
			return reconcile.Result{}, err
		}
		if member {
			err = c.wake(ctx, pod)
		}
		if err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{}, c.passOn(ctx, pod, claim)
	}
	if !member || pod.DeletionTimestamp != nil || claim.DeletionTimestamp != nil || !metav1.IsControlledBy(claim, pod) {
		return reconcile.Result{}, nil
	}
	return c.give(ctx, pod, claim)
}

// make makes the claim of a pod, or reads the one that is there and that the
// cache does not show yet.
func (c *Controller) make(ctx context.Context, pod *corev1.Pod, name string) (*resourcev1.ResourceClaim, error) {
	w, err := wishOf(pod)
	if err != nil {
		return nil, reconcile.TerminalError(err)
	}
	claim := inventory.Claim(pod, name, len(w.ids), w.share)
	err = c.options.Client.Create(ctx, claim)
	if apierrors.IsAlreadyExists(err) {
		err = c.options.Live.Get(ctx, client.ObjectKeyFromObject(claim), claim)
	}
	if err != nil {
		return nil, fmt.Errorf("creating claim %s/%s: %w", pod.Namespace, name, err)
	}
	return claim, nil
}

// give allocates a claim as the pod's annotations say, and reserves it.
func (c *Controller) give(ctx context.Context, pod *corev1.Pod, claim *resourcev1.ResourceClaim) (reconcile.Result, error) {
	w, err := wishOf(pod)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	parts := &resourcev1.ResourceSliceList{}
	if err := c.options.Client.List(ctx, parts, client.MatchingFields{slicesByNode: pod.Spec.NodeName}, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("reading what GPUs node %s has: %w", pod.Spec.NodeName, err)
	}
	gpus := w.among(parts.Items)
	if gpus == nil {
		return reconcile.Result{RequeueAfter: again}, nil // until the start timeout of the gang
	}
	taken, err := c.taken(ctx, claim, devices(gpus), w.share)
	if err != nil {
		return reconcile.Result{}, err
	}
	if taken != "" {
		return reconcile.Result{}, c.giveBack(ctx, pod, v1alpha1.ReasonRefused, taken)
	}
	claim = claim.DeepCopy()
	if claim.Status.Allocation == nil {
		if claim.Status.Allocation, err = inventory.Allocation(pod.Spec.NodeName, gpus, w.share); err != nil {
			return reconcile.Result{}, reconcile.TerminalError(err)
		}
	}
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
	err = c.options.Client.Status().Update(ctx, claim)
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: 20 * time.Millisecond}, nil // the cache will show what changed
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("allocating claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return reconcile.Result{}, c.wake(ctx, pod)
}

// wake has the kubelet look at a pod whose claim is ready now. It may have
// looked before that, and then looks again within its own time, a minute or so,
// or at once if the pod changes.
func (c *Controller) wake(ctx context.Context, pod *corev1.Pod) error {
	if pod.Annotations[v1alpha1.AnnotationClaimed] != "" || pod.Status.Phase != corev1.PodPending || pod.DeletionTimestamp != nil {
		return nil
	}
	patch := []byte(fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:"true"}}}`, pod.UID, v1alpha1.AnnotationClaimed))
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err := c.options.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("waking the kubelet for pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// passOn tells the pod what the driver said of its share.
func (c *Controller) passOn(ctx context.Context, pod *corev1.Pod, claim *resourcev1.ResourceClaim) error {
	said, news := verdict(pod, claim)
	if !news || pod.DeletionTimestamp != nil {
		return nil
	}
	said.LastTransitionTime = metav1.NewTime(c.options.Now())
	after := pod.DeepCopy()
	put(after, said)
	err := c.options.Client.Status().Patch(ctx, after, client.StrategicMergeFrom(pod))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("telling pod %s/%s of its share: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
