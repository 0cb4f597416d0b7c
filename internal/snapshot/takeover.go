package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fencing"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// takeOver makes this loop the one that plans: it waits for the scheduler
// before it, moves the epoch on, adopts everything that was written before
// that, and settles. Whatever of its predecessors arrives later is void, or is
// refused by the API server. After a hand-over in order there is nothing to adopt:
// everything was written, and stands as it is. See package fencing.
func (l *Loop) takeOver(ctx context.Context) error {
	var seen int64
	for {
		// 1. A number of our own.
		state, err := l.takeLease(ctx, seen)
		if err != nil {
			return err
		}
		// 2. Everything there is, past the cache.
		found, err := l.list(ctx)
		if err != nil {
			return err
		}
		// 3. Somebody deleted the fence: begin above everything it ever said.
		if found.highest > state.Epoch {
			seen = found.highest
			continue
		}
		l.wg.Go(func() { l.hold(ctx) })
		// 4. Adopt what is not void; stamp the pods that wait, so that bindings
		// of them that are still under way fail.
		if err := l.adoptAll(ctx, state, found); err != nil {
			return err
		}
		// 5. The cache must show at least that.
		if err := l.catchUp(ctx, found.wanted()); err != nil {
			return err
		}
		// 6. From now on we plan.
		err = l.insist(ctx, "settling the scheduler's epoch", func() error { return l.fence.Settle(ctx) })
		if err != nil {
			return err
		}
		settled, _ := state.Settle(state.Epoch)
		l.settled.Store(settled.Settled)
		l.epoch.Store(state.Epoch)
		l.options.Log.Info("this scheduler plans from now on", "epoch", state.Epoch, "handedOverInOrder", state.Continues())
		return nil
	}
}

// takeLease moves the scheduler's epoch on. It tries again if the API server does not answer. A
// write without an answer may have arrived; then the next one moves the epoch on a second time,
// and an epoch stays unused.
func (l *Loop) takeLease(ctx context.Context, seen int64) (state fencing.State, err error) {
	err = l.insist(ctx, "taking over the scheduler's lease", func() (err error) {
		state, err = l.fence.Take(ctx, seen)
		return err
	})
	return state, err
}

// listing is what a takeover found.
type listing struct {
	placements []v1alpha1.Placement
	// waiting are foreign pods that nobody has bound; bound are those that
	// hold something on a node.
	waiting, bound []corev1.Pod
	// highest is the highest epoch that anything carries.
	highest int64
}

// wanted is all that the cache must show.
func (f *listing) wanted() []client.Object {
	var out []client.Object
	for i := range f.placements {
		out = append(out, &f.placements[i])
	}
	for _, pods := range [][]corev1.Pod{f.waiting, f.bound} {
		for i := range pods {
			out = append(out, &pods[i])
		}
	}
	return out
}

// list reads past the cache what earlier schedulers may have written: their
// Placements, and the pods of others. The pods that Muster made are left out, for
// which their Placements stand: on a large cluster that is nearly all, and each
// would be read a second time. That nobody else gives a pod their label is a
// policy of the chart (muster-pods).
func (l *Loop) list(ctx context.Context) (*listing, error) {
	found := &listing{}
	others, err := labels.Parse("!" + v1alpha1.LabelGang)
	if err != nil {
		return nil, fmt.Errorf("selecting the pods of others: %w", err)
	}
	err = l.insist(ctx, "listing what earlier schedulers placed", func() error {
		*found = listing{}
		placements, pods := &v1alpha1.PlacementList{}, &corev1.PodList{}
		if err := l.options.Live.List(ctx, placements); err != nil {
			return fmt.Errorf("listing placements: %w", err)
		}
		if err := l.options.Live.List(ctx, pods, client.MatchingLabelsSelector{Selector: others}); err != nil {
			return fmt.Errorf("listing pods: %w", err)
		}
		found.placements = placements.Items
		for i := range found.placements {
			found.highest = max(found.highest, fencing.Of(&found.placements[i]))
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			if conversion.GangOf(p) != "" || conversion.Ended(p) {
				continue // its placement stands for it
			}
			found.highest = max(found.highest, fencing.Stamp(p))
			switch {
			case p.Spec.NodeName != "":
				found.bound = append(found.bound, *p)
			case l.ours(p) && p.DeletionTimestamp == nil:
				found.waiting = append(found.waiting, *p)
			}
		}
		return nil
	})
	return found, err
}

// ours reports whether a pod that is not bound may have been bound by a
// scheduler before this one.
func (l *Loop) ours(p *corev1.Pod) bool {
	open := p.DeepCopy()
	open.Spec.SchedulingGates = nil
	return l.mine(open)
}

// adoptAll stamps side by side what was found, and leaves in the listing each
// object as it then was.
func (l *Loop) adoptAll(ctx context.Context, state fencing.State, found *listing) error {
	if state.Continues() {
		return nil
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	stamp := func(o client.Object, adopt func() error) {
		wg.Go(func() {
			what := fmt.Sprintf("adopting %T %s/%s", o, o.GetNamespace(), o.GetName())
			err := l.slots.Take(ctx, o.GetNamespace(), priorityOfDecisions)
			if err == nil {
				defer l.slots.Give()
				err = l.insist(ctx, what, adopt)
			}
			if err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	for i := range found.placements {
		p := &found.placements[i]
		stamp(p, func() error { return l.adoptPlacement(ctx, state, p) })
	}
	for i := range found.waiting {
		p := &found.waiting[i]
		stamp(p, func() error { return client.IgnoreNotFound(l.stamp(ctx, p, state.Epoch, false)) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// adoptPlacement stamps one Placement, unless it is void or gone. The stamp is
// written on the version that was judged and on no other: that of a scheduler
// which has been replaced meanwhile must not undo a later one.
func (l *Loop) adoptPlacement(ctx context.Context, state fencing.State, p *v1alpha1.Placement) error {
	for {
		if !state.Adopts(fencing.Of(p)) {
			return nil
		}
		err := l.stamp(ctx, p, state.Epoch, true)
		if !apierrors.IsConflict(err) {
			return client.IgnoreNotFound(err)
		}
		key := keyOf(p)
		if err := l.options.Live.Get(ctx, key, p); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
}

// stamp writes an epoch on an object and returns in it what came of it.
// Exactly: on the version given, or not at all. Of a Placement nobody need know
// who owns which field: without that, the API server does not compare all that it
// names (kubernetes.io, Server-Side Apply, clearing managedFields).
func (l *Loop) stamp(ctx context.Context, o client.Object, epoch int64, exactly bool) error {
	metadata := map[string]any{"uid": o.GetUID(), "annotations": map[string]string{v1alpha1.AnnotationEpoch: fencing.Text(epoch)}}
	if exactly {
		metadata["resourceVersion"] = o.GetResourceVersion()
		metadata["managedFields"] = []struct{}{{}}
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.fence.LongestRequest())
	defer cancel()
	return l.options.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch))
}

// catchUp waits until the cache shows each object at least as new as given, or
// it is gone.
func (l *Loop) catchUp(ctx context.Context, objects []client.Object) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		var behind []client.Object
		for _, o := range objects {
			shown, err := l.shows(ctx, o)
			if err != nil {
				l.options.Log.Error(err, "waiting for the cache")
			}
			if !shown {
				behind = append(behind, o)
			}
		}
		if len(behind) == 0 {
			return nil
		}
		objects = behind
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.wake:
		case <-time.After(wait):
		}
	}
}

// shows reports whether the cache shows an object at least as new as given, or
// rightly does not show it.
func (l *Loop) shows(ctx context.Context, o client.Object) (bool, error) {
	key := client.ObjectKeyFromObject(o)
	have, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		return false, fmt.Errorf("copying %T: it is not an object of the API", o)
	}
	if l.options.Cache.Get(ctx, key, have) == nil && have.GetUID() == o.GetUID() {
		order, err := resourceversion.CompareResourceVersion(have.GetResourceVersion(), o.GetResourceVersion())
		if err != nil {
			return false, fmt.Errorf("comparing versions of %T %s: %w", o, key, err)
		}
		return order >= 0, nil
	}
	err := l.options.Live.Get(ctx, key, have)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %T %s: %w", o, key, err)
	}
	return have.GetUID() != o.GetUID(), nil
}

// insist repeats what may fail for a while, until it succeeds, the context
// ends, another scheduler has taken over, or a person has to mend the lease.
func (l *Loop) insist(ctx context.Context, what string, do func() error) error {
	for wait := again; ; wait = min(2*wait, time.Second) {
		err := do()
		if err == nil || errors.Is(err, fencing.ErrDeposed) || errors.Is(err, fencing.ErrDamaged) || apierrors.IsForbidden(err) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		l.options.Log.Error(err, what+"; it is tried again")
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// hold renews the lease until the context ends, and stands down once another
// scheduler has taken over.
func (l *Loop) hold(ctx context.Context) {
	tick := time.NewTicker(l.fence.RenewEvery())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := l.fence.Renew(ctx)
		if errors.Is(err, fencing.ErrDeposed) {
			l.standDown(err)
			return
		}
		if err != nil && ctx.Err() == nil {
			l.options.Log.Error(err, "showing that this scheduler is alive; it is tried again")
		}
	}
}

// mayWrite returns nil if this loop may write what it planned from what it has
// seen before. It stands down where another has taken over.
func (l *Loop) mayWrite(ctx context.Context) error {
	err := l.fence.Check(ctx)
	if errors.Is(err, fencing.ErrDeposed) {
		l.standDown(err)
	}
	return err
}

// counts reports whether a Placement holds something: it is not void.
func (l *Loop) counts(p *v1alpha1.Placement) bool {
	return fencing.State{Epoch: l.epoch.Load(), Settled: l.settled.Load()}.Counts(fencing.Of(p))
}

// heed looks at Placements for one of a later epoch, which says that another
// scheduler may have taken over.
func (l *Loop) heed(ctx context.Context, items []v1alpha1.Placement) {
	mine := l.epoch.Load()
	if slices.ContainsFunc(items, func(p v1alpha1.Placement) bool { return fencing.Of(&p) > mine }) {
		l.background(ctx, "", func() { _ = l.mayWrite(ctx) })
	}
}
