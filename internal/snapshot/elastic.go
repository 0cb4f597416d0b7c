package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fencing"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// elastic reports whether a gang may have more members than it starts with.
func elastic(g *v1alpha1.Gang) bool {
	for i := range g.Spec.Roles {
		if r := &g.Spec.Roles[i]; r.MinReplicas != nil && *r.MinReplicas < r.Replicas {
			return true
		}
	}
	return false
}

// growing says whether, and from when on, a placed gang may be given further
// replicas.
func growing(req *scheduling.Request, g *v1alpha1.Gang) {
	req.Grows, req.NotBefore = grows(g), 0
	if at := g.Status.GrowNotBefore; at != nil {
		req.NotBefore = conversion.Instant(at.Time)
	}
}

// grows reports whether a gang may be given further replicas. A collective that began anew
// because of a member may not: it may have been one that could not go in time, and would
// not the next time.
func grows(g *v1alpha1.Gang) bool {
	return underWay(g) && (g.Spec.Restart != v1alpha1.RestartScopeGang || g.Status.Restarts == 0)
}

// underWay reports whether a gang's attempt has started and is not to end, as
// far as the gang shows it.
func underWay(g *v1alpha1.Gang) bool {
	s := &g.Status
	if g.DeletionTimestamp != nil || g.Spec.Suspend || g.Spec.Stop != "" || s.Outcome != "" || s.AllStartedTime == nil {
		return false
	}
	for _, order := range []string{v1alpha1.AnnotationEvict, v1alpha1.AnnotationRelease} {
		if strings.HasPrefix(g.Annotations[order], fmt.Sprintf("%d ", s.Attempt)) {
			return false
		}
	}
	return s.Phase == v1alpha1.GangStarting || s.Phase == v1alpha1.GangRunning
}

// freshGrowth checks that a gang, as the API server has it, is still in the
// attempt that is to grow.
func freshGrowth(g *v1alpha1.Gang, p *v1alpha1.Placement, generation int64) error {
	if g.UID != p.Spec.GangUID || g.Generation != generation || g.Status.Attempt != p.Spec.Attempt || !grows(g) {
		return errStale
	}
	return nil
}

// growAfter is the longest time after its first pass for which a scheduler adds no members beyond a
// minimum because the pods of a waiting gang are unknown or refused.
const growAfter = 10 * time.Second

// growth says when a scheduler begins to add members beyond a minimum. An API server that has just
// started does not know all service accounts yet, and refuses pods that need them. The scheduler
// cannot place a gang whose pods are refused. If it added members meanwhile, they would take the
// GPUs that other members have given back for that gang.
type growth struct {
	begun  bool
	latest time.Time
}

// from returns the time from which members are added; zero: now. open reports whether the pods of a
// gang are unknown or refused.
func (g *growth) from(open func() bool, now time.Time) time.Time {
	if g.latest.IsZero() {
		g.latest = now.Add(growAfter)
	}
	g.begun = g.begun || !open() || !now.Before(g.latest)
	if g.begun {
		return time.Time{}
	}
	return g.latest
}

// resize writes what was decided about gangs that are placed: the replicas that
// they are given, and those that they are to give back. Whatever comes of it,
// the core is told of them in the next pass.
func (l *Loop) resize(ctx context.Context, result scheduling.Result) {
	for _, growth := range result.Growths {
		l.mirror.touch(types.UID(growth.UID))
		if g := l.mirror.gang(types.UID(growth.UID)); g != nil {
			l.grow(ctx, g, growth)
		}
	}
	for _, b := range result.GiveBacks {
		l.mirror.touch(types.UID(b.UID))
		if p := l.mirror.placement(types.UID(b.UID), types.UID(b.Journal)); p != nil {
			l.giveBack(ctx, p, b)
		}
	}
}

// grow journals one more replica.
func (l *Loop) grow(ctx context.Context, g *v1alpha1.Gang, growth scheduling.Growth) {
	l.grown++
	l.journal(ctx, g, extensionOf(g, growth, l.epoch.Load(), l.grown, l.options.Now()))
}

// extensionOf is the journal entry of one more replica. Its name is never used
// twice, so that an entry that is gone is not taken for one that is still to be
// seen.
func extensionOf(g *v1alpha1.Gang, growth scheduling.Growth, epoch, number int64, now time.Time) *v1alpha1.Placement {
	plan := scheduling.Plan{Key: growth.Key, UID: growth.UID, Attempt: growth.Attempt, Members: []scheduling.Assignment{growth.Member}}
	p := placementOf(g, plan, epoch, now)
	p.Spec.Extends = p.Name
	p.Name = fmt.Sprintf("%s.%s-%d.%s", p.Name, growth.Member.Role, growth.Member.Index, fencing.Growth{Epoch: epoch, Number: number})
	return p
}

// giveBack orders a replica back: its placement is told for whom, and deleted.
// The gang's controller lets it go once the replica's pod is gone.
func (l *Loop) giveBack(ctx context.Context, p *v1alpha1.Placement, b scheduling.GiveBack) {
	// The UID in the patch is a precondition.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": p.UID, "annotations": map[string]string{v1alpha1.AnnotationGiveBack: l.forWhom(p.Namespace, b.For)},
	}})
	if err != nil {
		l.options.Log.Error(err, "writing the order to give a replica back", "placement", p.Name)
		return
	}
	target := &v1alpha1.Placement{}
	target.Namespace, target.Name = p.Namespace, p.Name
	uid := p.UID
	l.assumed.leaves(uid, p.Spec.GangUID)
	l.background(ctx, p.Namespace, func() {
		err := l.options.Client.Patch(ctx, target.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
		if err == nil {
			err = l.options.Client.Delete(ctx, target.DeepCopy(), client.Preconditions{UID: &uid})
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		// Whether it was written or not: the next pass sees, and orders it again
		// if it is still needed.
		l.assumed.left(uid)
		l.later(uid)
		if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			l.options.Log.Error(err, "ordering a replica back; it is ordered again if that is still needed", "gang", b.String(), "for", b.For.String())
		}
	})
}

// leaves assumes that a placement of a gang was ordered back.
func (a *assumed) leaves(uid, gang types.UID) {
	defer a.touch(gang)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leaving[uid] = gang
}

// left takes that back: the placement shows it, is gone, or was not ordered
// back after all.
func (a *assumed) left(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if gang, leaves := a.leaving[uid]; leaves {
		delete(a.leaving, uid)
		defer a.touch(gang)
	}
}
