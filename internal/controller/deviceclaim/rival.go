package deviceclaim

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/allocation"
	"github.com/muster-dev/muster/internal/inventory"
)

// Other schedulers allocate devices to claims of theirs, and the API server accepts two
// claims with one device. The scheduler counts claims of others. This file finds those
// that were allocated after it decided: before a claim is allocated, and afterwards, when
// the watch shows one that was written at the same time.

// devicesOf are the devices that a claim has, as the index names them.
func devicesOf(o client.Object) []string {
	c, ok := o.(*resourcev1.ResourceClaim)
	if !ok {
		return nil
	}
	var out []string
	for _, r := range allocation.Results(c) {
		out = append(out, allocation.DeviceOf(r).String())
	}
	return out
}

// ofMuster reports whether Muster may have made a claim: a label tells it, which others can
// set as well.
func ofMuster(o client.Object) bool {
	_, labelled := o.GetLabels()[v1alpha1.LabelGang]
	return labelled
}

// devices are GPUs as devices.
func devices(gpus []inventory.GPU) []allocation.Device {
	out := make([]allocation.Device, len(gpus))
	for i := range gpus {
		out[i] = allocation.Device{Driver: gpus[i].Driver, Pool: gpus[i].Pool, Name: gpus[i].Name}
	}
	return out
}

// taken returns a message with the claim of others that has one of these devices, or so much of it
// that a share does not fit; empty if there is none. The ledger has Muster's own allocations.
func (c *Controller) taken(ctx context.Context, claim *resourcev1.ResourceClaim, wanted []allocation.Device, share *v1alpha1.GPUShare) (string, error) {
	for _, d := range wanted {
		list := &resourcev1.ResourceClaimList{}
		if err := c.options.Client.List(ctx, list, client.MatchingFields{claimsByDevice: d.String()}, client.UnsafeDisableDeepCopy); err != nil {
			return "", fmt.Errorf("reading the claims of device %s: %w", d, err)
		}
		free := int64(wholeMilli)
		if share != nil {
			free -= int64(share.Milli)
		}
		for i := range list.Items {
			other := &list.Items[i]
			foreign, err := c.foreign(ctx, other)
			if err != nil {
				return "", err
			}
			if other.UID == claim.UID || !foreign {
				continue
			}
			for _, r := range allocation.Results(other) {
				if allocation.DeviceOf(r) == d {
					milli, _ := inventory.Part(r)
					free -= milli
				}
			}
			if share == nil || free < 0 {
				return fmt.Sprintf("claim %s/%s, which Muster did not make, has GPU %s since the job was placed", other.Namespace, other.Name, d.Name), nil
			}
		}
	}
	return "", nil
}

// wholeMilli is one GPU in thousandths.
const wholeMilli = 1000

// foreign reports whether a claim is not Muster's. The claim of a pod that is gone stays for
// a moment: by its label it was Muster's.
func (c *Controller) foreign(ctx context.Context, claim *resourcev1.ResourceClaim) (bool, error) {
	ref := metav1.GetControllerOfNoCopy(claim)
	if ref == nil || allocation.Owner(claim) == "" {
		return true, nil
	}
	owner := &corev1.Pod{}
	err := c.options.Client.Get(ctx, types.NamespacedName{Namespace: claim.Namespace, Name: ref.Name}, owner)
	switch {
	case apierrors.IsNotFound(err):
		return !ofMuster(claim), nil
	case err != nil:
		return false, fmt.Errorf("reading the owner of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	case owner.UID != ref.UID || len(claim.Status.ReservedFor) == 0:
		return !ofMuster(claim), nil
	}
	return !allocation.Own(claim, owner, func(p *corev1.Pod) bool { return p.Spec.SchedulerName == v1alpha1.SchedulerName }), nil
}

// rivals are the pods that were given a device which a claim of others has by now.
func (c *Controller) rivals(ctx context.Context, o client.Object) []reconcile.Request {
	claim, ok := o.(*resourcev1.ResourceClaim)
	if !ok {
		return nil
	}
	if foreign, err := c.foreign(ctx, claim); err != nil || !foreign {
		return nil // without the cache nothing is decided; the agent prepares a device once
	}
	var out []reconcile.Request
	for _, d := range devicesOf(claim) {
		list := &resourcev1.ResourceClaimList{}
		if err := c.options.Client.List(ctx, list, client.MatchingFields{claimsByDevice: d}, client.UnsafeDisableDeepCopy); err != nil {
			return out
		}
		for i := range list.Items {
			if owner := metav1.GetControllerOfNoCopy(&list.Items[i]); owner != nil && ofMuster(&list.Items[i]) && owner.Kind == "Pod" {
				out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: list.Items[i].Namespace, Name: owner.Name}})
			}
		}
	}
	return out
}

// yield gives a member back that has not started and that shares a device with a claim of
// others: one of the two cannot start, and the scheduler finds another place for this one.
// A lone pod has no attempt to give back: it starts once the other claim is gone.
func (c *Controller) yield(ctx context.Context, pod *corev1.Pod, claim *resourcev1.ResourceClaim, member bool) (bool, error) {
	if !member || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodPending || started(pod) {
		return false, nil
	}
	var wanted []allocation.Device
	for _, r := range allocation.Results(claim) {
		wanted = append(wanted, allocation.DeviceOf(r))
	}
	w, err := wishOf(pod)
	if err != nil {
		return false, reconcile.TerminalError(err)
	}
	taken, err := c.taken(ctx, claim, wanted, w.share)
	if taken == "" || err != nil {
		return false, err
	}
	return true, c.giveBack(ctx, pod, v1alpha1.ReasonRefused, taken)
}

// started reports whether any container of a pod has run.
func started(p *corev1.Pod) bool {
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			if s := &list[i]; s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil {
				return true
			}
		}
	}
	return false
}

// giveBack ends a member that cannot have its GPUs: the controller of its gang then gives
// the whole attempt back.
func (c *Controller) giveBack(ctx context.Context, pod *corev1.Pod, reason, message string) error {
	after := pod.DeepCopy()
	after.Status.Phase, after.Status.Reason, after.Status.Message = corev1.PodFailed, reason, message
	err := c.options.Client.Status().Patch(ctx, after, client.StrategicMergeFrom(pod, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // it has changed, and is reconciled again
	}
	if err != nil {
		return fmt.Errorf("giving back pod %s/%s, which cannot have its GPUs: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// words are what the API server said, without what this program added.
func words(err error) string {
	if said := apierrors.APIStatus(nil); errors.As(err, &said) {
		return said.Status().Message
	}
	return err.Error()
}
