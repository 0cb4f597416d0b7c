package fencing

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// lookEvery is the longest time between two looks at a Lease that is waited
	// for.
	lookEvery = 500 * time.Millisecond
	// underWay is for how long after a Lease has run out the last writes of its
	// holder are let arrive. Those that take longer are void when they do.
	underWay = time.Second
)

// waitOut returns once the present holder has let go of the Lease, or has not
// renewed it for its duration and the time that its last writes are given.
// Nothing that is guaranteed depends on it: it keeps two live schedulers from
// taking turns, and late writes from being many.
func (f *Fence) waitOut(ctx context.Context) error {
	if f.options.Alone {
		return nil
	}
	var seen string
	var since time.Time
	for {
		lease := &coordinationv1.Lease{}
		err := f.options.Live.Get(ctx, f.key(), lease)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			now := f.options.Now()
			if lease.ResourceVersion != seen {
				seen, since = lease.ResourceVersion, now
			}
			if f.over(lease, now, since) {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the scheduler %q to let go of lease %s: %w", holder(lease), f.key(), context.Cause(ctx))
		case <-time.After(min(lookEvery, f.options.Duration/4)):
		}
	}
}

// over reports whether the holder of a Lease, seen unchanged since a time, is
// taken to be gone.
func (f *Fence) over(lease *coordinationv1.Lease, now, since time.Time) bool {
	if holder(lease) == "" || f.own(lease) {
		return true
	}
	wait := min(f.options.LongestRequest, underWay)
	if s := lease.Spec.LeaseDurationSeconds; s != nil {
		wait += time.Duration(*s) * time.Second
	}
	if at := lease.Spec.RenewTime; at == nil || now.Sub(at.Time) > wait {
		return true // long ago, by the clocks of both
	}
	return now.Sub(since) > wait // for long, by this clock alone
}

// own reports whether this scheduler wrote the Lease: by its last successful Take, or by a Take
// that failed after its write had arrived.
func (f *Fence) own(lease *coordinationv1.Lease) bool {
	if lease.Spec.LeaseTransitions == nil {
		return false
	}
	epoch := int64(*lease.Spec.LeaseTransitions)
	return f.epoch != 0 && epoch == f.epoch || f.tried != 0 && epoch == f.tried && holder(lease) == f.options.Identity
}
