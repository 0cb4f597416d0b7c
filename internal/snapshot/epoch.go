package snapshot

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// epochLease is the Lease whose count of transitions is the epoch.
const epochLease = "muster-scheduler-epoch"

// nextEpoch moves the epoch on by one, by comparison and swap, and returns it.
// No two starts get the same number.
func nextEpoch(ctx context.Context, c client.Client, live client.Reader, namespace, identity string, now time.Time) (int64, error) {
	for {
		epoch, err := tryEpoch(ctx, c, live, namespace, identity, now)
		if err == nil {
			return epoch, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return 0, fmt.Errorf("moving the scheduler's epoch on, in lease %s/%s: %w", namespace, epochLease, err)
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
}

func tryEpoch(ctx context.Context, c client.Client, live client.Reader, namespace, identity string, now time.Time) (int64, error) {
	lease := &coordinationv1.Lease{}
	err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: epochLease}, lease)
	if apierrors.IsNotFound(err) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		if err := c.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
			return 0, fmt.Errorf("creating namespace %s: %w", namespace, err)
		}
		first := int32(1)
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: epochLease}}
		lease.Spec = coordinationv1.LeaseSpec{LeaseTransitions: &first, HolderIdentity: &identity, AcquireTime: &metav1.MicroTime{Time: now}}
		return 1, c.Create(ctx, lease)
	}
	if err != nil {
		return 0, err
	}
	next := int32(1)
	if lease.Spec.LeaseTransitions != nil {
		next = *lease.Spec.LeaseTransitions + 1
	}
	lease.Spec.LeaseTransitions = &next
	lease.Spec.HolderIdentity = &identity
	lease.Spec.AcquireTime = &metav1.MicroTime{Time: now}
	return int64(next), c.Update(ctx, lease)
}
