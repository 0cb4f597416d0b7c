package gang

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fencing"
)

// judge returns the placements that may be acted on: those that every later
// scheduler will adopt. It notes in what was observed those that came too late,
// whether any is undecided, and which came twice.
func (c *Controller) judge(ctx context.Context, key types.NamespacedName, o *observed, placements []v1alpha1.Placement) ([]v1alpha1.Placement, error) {
	o.late, o.undecided, o.returned = nil, false, nil
	var out []v1alpha1.Placement
	for i := range placements {
		p := &placements[i]
		if p.Spec.GangUID != o.gang.UID {
			continue // released as a stranger's
		}
		verdict, err := c.verdict(ctx, key, o, p)
		if err != nil {
			return nil, err
		}
		switch verdict {
		case fencing.Valid:
			out = append(out, *p)
		case fencing.Void:
			o.late = append(o.late, p)
		default:
			o.undecided = true
		}
	}
	return out, nil
}

// verdict judges a placement that was seen, by what the fence and the gang are
// after that. One that was found valid stays so until its attempt is given
// back. What comes twice after that is as good as void.
func (c *Controller) verdict(ctx context.Context, key types.NamespacedName, o *observed, p *v1alpha1.Placement) (fencing.Verdict, error) {
	g := o.gang
	spent := fencing.Spent(g.Status.Attempt, p.Spec.Attempt, busy(g))
	if c.isValid(key, p.UID) && !spent {
		return fencing.Valid, nil
	}
	state, err := c.fence.Read(ctx)
	if err != nil {
		return 0, fmt.Errorf("judging placement %s/%s: %w", p.Namespace, p.Name, err)
	}
	verdict := state.Judge(fencing.Of(p))
	if verdict != fencing.Valid || spent {
		// It may have been adopted, or be gone, since the cache showed it.
		now := &v1alpha1.Placement{}
		err := c.options.Live.Get(ctx, client.ObjectKeyFromObject(p), now)
		switch {
		case apierrors.IsNotFound(err) || err == nil && now.UID != p.UID:
			return gone(spent), nil
		case err != nil:
			return 0, fmt.Errorf("reading placement %s/%s: %w", p.Namespace, p.Name, err)
		}
		verdict = state.Judge(fencing.Of(now))
	}
	if verdict != fencing.Valid {
		return verdict, nil
	}
	if spent {
		return fencing.Void, nil
	}
	return c.starts(ctx, key, o, p)
}

// gone is the verdict on a placement that the cache still shows.
func gone(spent bool) fencing.Verdict {
	if spent {
		return fencing.Valid // and of no effect: its attempt was given back
	}
	return fencing.Undecided
}

// starts is the verdict on a placement that is valid as far as the fence goes:
// members may be made of it if the gang, read past the cache, has not given
// back its attempt, or that of a further replica the replica.
func (c *Controller) starts(ctx context.Context, key types.NamespacedName, o *observed, p *v1alpha1.Placement) (fencing.Verdict, error) {
	g, now := o.gang, &v1alpha1.Gang{}
	err := c.options.Live.Get(ctx, key, now)
	switch {
	case apierrors.IsNotFound(err):
		return fencing.Undecided, nil
	case err != nil:
		return 0, fmt.Errorf("reading gang %s: %w", key, err)
	case now.UID != g.UID || now.Status.Attempt != g.Status.Attempt || now.Status.Phase != g.Status.Phase:
		return fencing.Undecided, nil // the cache is behind
	case !fencing.Starts(now.Status.Attempt, p.Spec.Attempt, busy(now)):
		return fencing.Valid, nil // it holds, but starts nothing: see attemptIsLive
	case p.Spec.Extends != "" && fencing.Returned(fencing.ParseGrowth(now.Status.GivenBackUpTo), fencing.GrowthOf(p), o.madeOf(p)):
		if o.returned == nil {
			o.returned = map[types.UID]bool{}
		}
		o.returned[p.UID] = true
		return fencing.Valid, nil // it holds until it is given back: see shrink
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.valid[key] == nil {
		c.valid[key] = map[types.UID]bool{}
	}
	c.valid[key][p.UID] = true
	return fencing.Valid, nil
}

// busy reports whether the gang has accepted an attempt that is not given back
// yet.
func busy(g *v1alpha1.Gang) bool { return holds(g) || g.Status.Phase == v1alpha1.GangDraining }

func (c *Controller) isValid(key types.NamespacedName, uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.valid[key][uid]
}

// undo removes placements that came too late. No member was ever made of them.
// The number of the attempt is passed over first, so that none is used twice.
func (c *Controller) undo(ctx context.Context, g *v1alpha1.Gang, late []*v1alpha1.Placement) error {
	status := *g.Status.DeepCopy()
	for _, p := range late {
		if fencing.Burns(status.Attempt, p.Spec.Attempt, busy(g)) {
			status.Attempt = p.Spec.Attempt
		}
	}
	if status.Attempt != g.Status.Attempt {
		if status.Phase == "" {
			status.Phase = v1alpha1.GangPending
		}
		if err := c.patchStatus(ctx, g, status); err != nil {
			return err
		}
	}
	for _, p := range late {
		c.options.Log.Info("undoing a placement that was written too late",
			"placement", p.Namespace+"/"+p.Name, "attempt", p.Spec.Attempt, "epoch", fencing.Of(p))
		if err := c.markPlacement(ctx, p); err != nil {
			return err
		}
		if err := c.freePlacement(ctx, p); err != nil {
			return err
		}
	}
	return nil
}
