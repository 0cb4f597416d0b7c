package volumeclaim

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-dev/muster/internal/fairqueue"
)

// Deps is what the controller works with. All of it but Owner is required.
type Deps struct {
	// Dir is the folder that volumes lie in; it is made where it is missing.
	Dir string
	// Node is the name of the node that Dir is a folder of.
	Node string
	// Owner returns the user to whom a namespace belongs; false: nobody, and its claims get no volumes. Nil:
	// Muster has one user.
	Owner func(namespace string) (uid uint32, ok bool)
}

// Controller makes and removes volumes.
type Controller struct {
	deps     Deps
	client   client.Client
	recorder events.EventRecorder
}

// New returns the controller; [Controller.SetupWithManager] gives it to a
// manager.
func New(deps Deps) *Controller { return &Controller{deps: deps} }

// The numbers of claims served, and of volumes removed, at once. Removing a
// large folder takes its time, and must not hold up a claim.
const (
	makers   = 16
	removers = 4
)

// SetupWithManager adds the two halves, making and removing, to the manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	dir, err := filepath.Abs(c.deps.Dir)
	if err != nil || c.deps.Dir == "" || c.deps.Node == "" {
		return errors.Join(fmt.Errorf("setting up volumes: a folder (%q) and a node (%q) are needed", c.deps.Dir, c.deps.Node), err)
	}
	c.deps.Dir = dir
	c.client = mgr.GetClient()
	c.recorder = mgr.GetEventRecorder("muster-volumeclaim")
	err = ctrl.NewControllerManagedBy(mgr).
		Named("volumeclaim").
		For(&corev1.PersistentVolumeClaim{}).
		// A class that comes late is what waiting claims wait for.
		Watches(&storagev1.StorageClass{}, handler.EnqueueRequestsFromMapFunc(c.claimsOf)).
		WithOptions(controller.Options{MaxConcurrentReconciles: makers, NewQueue: fairqueue.New}).
		Complete(reconcile.Func(c.provision))
	if err != nil {
		return fmt.Errorf("setting up volumes: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("volumeclaim-release").
		For(&corev1.PersistentVolume{}).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(volumeOf)).
		WithOptions(controller.Options{MaxConcurrentReconciles: removers, NewQueue: fairqueue.New}).
		Complete(reconcile.Func(c.release))
	if err != nil {
		return fmt.Errorf("setting up volumes: %w", err)
	}
	return nil
}

// claimsOf are the claims that wait for a class.
func (c *Controller) claimsOf(ctx context.Context, class client.Object) []reconcile.Request {
	var claims corev1.PersistentVolumeClaimList
	if err := c.client.List(ctx, &claims); err != nil {
		return nil // the cache is stopping
	}
	var out []reconcile.Request
	for i := range claims.Items {
		claim := &claims.Items[i]
		if claim.Spec.StorageClassName != nil && *claim.Spec.StorageClassName == class.GetName() && claim.Spec.VolumeName == "" {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)})
		}
	}
	return out
}

// volumeOf is the volume that a claim is bound to: its end frees the volume.
func volumeOf(_ context.Context, o client.Object) []reconcile.Request {
	claim, ok := o.(*corev1.PersistentVolumeClaim)
	if !ok || claim.Spec.VolumeName == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: claim.Spec.VolumeName}}}
}

// provision makes the folder and the volume of one claim.
func (c *Controller) provision(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := c.client.Get(ctx, req.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName == "" {
		return reconcile.Result{}, nil
	}
	class := &storagev1.StorageClass{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: *claim.Spec.StorageClassName}, class); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !wanted(claim, class) {
		return reconcile.Result{}, nil
	}
	if why := refusal(claim); why != "" {
		c.recorder.Eventf(claim, nil, corev1.EventTypeWarning, "ProvisioningFailed", "Provision", "%s", why)
		return reconcile.Result{}, nil // until the claim changes
	}
	folder, err := folderOf(claim)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(err)
	}
	owner, err := c.owner(claim.Namespace)
	var path string
	if err == nil {
		path, err = folders{c.deps.Dir}.create(folder, owner)
	}
	if err != nil {
		c.recorder.Eventf(claim, nil, corev1.EventTypeWarning, "ProvisioningFailed", "Provision", "%s", err.Error())
		return reconcile.Result{}, err
	}
	// The folder is there before the volume that names it: a crash between
	// the two leaves a folder that the next attempt finds.
	if err := c.client.Create(ctx, volumeFor(claim, class, path, c.deps.Node)); err != nil && !apierrors.IsAlreadyExists(err) {
		return reconcile.Result{}, fmt.Errorf("creating the volume of claim %s: %w", req, err)
	}
	return reconcile.Result{}, nil
}

// owner is the user whose folder the volume of a claim is; nil: Muster has one user.
func (c *Controller) owner(namespace string) (*uint32, error) {
	if c.deps.Owner == nil {
		return nil, nil
	}
	uid, ok := c.deps.Owner(namespace)
	if !ok {
		return nil, reconcile.TerminalError(fmt.Errorf("namespace %s belongs to no user: make the claim in the namespace of a user, such as u-1000", namespace))
	}
	return &uid, nil
}

// release removes the folder of a volume that nobody can use any more.
func (c *Controller) release(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	volume := &corev1.PersistentVolume{}
	if err := c.client.Get(ctx, req.NamespacedName, volume); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	gone, err := c.claimGone(ctx, volume)
	if err != nil {
		return reconcile.Result{}, err
	}
	do := fateOf(volume, gone)
	if do.removeFolder {
		if volume.Spec.HostPath == nil {
			return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("volume %s is no folder any more; it is left alone", volume.Name))
		}
		if err := (folders{c.deps.Dir}).remove(atHome(volume, c.deps.Dir)); err != nil {
			c.recorder.Eventf(volume, nil, corev1.EventTypeWarning, "VolumeFailedDelete", "Delete", "%s", err.Error())
			return reconcile.Result{}, err
		}
	}
	if do.deleteVolume {
		if err := c.client.Delete(ctx, volume, client.Preconditions{UID: &volume.UID}); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("deleting volume %s: %w", volume.Name, err)
		}
	}
	if do.letGo {
		after := volume.DeepCopy()
		controllerutil.RemoveFinalizer(after, finalizer)
		err := c.client.Patch(ctx, after, client.MergeFromWithOptions(volume, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) {
			// Others hold finalizers too, and let go at the same moment.
			return reconcile.Result{RequeueAfter: time.Millisecond}, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("letting go of volume %s: %w", volume.Name, err)
		}
	}
	return reconcile.Result{}, nil
}

// claimGone reports whether the very claim that the volume was made for is no
// more.
func (c *Controller) claimGone(ctx context.Context, volume *corev1.PersistentVolume) (bool, error) {
	ref := volume.Spec.ClaimRef
	if ref == nil {
		return true, nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	err := c.client.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, claim)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the claim of volume %s: %w", volume.Name, err)
	}
	return claim.UID != ref.UID, nil
}
