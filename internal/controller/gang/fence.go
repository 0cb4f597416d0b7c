package gang

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fencing"
)

// judge returns the placements that may be acted on: those that every later
// scheduler will adopt. It notes in what was observed those that are void, and
// whether any is undecided. A placement that was found valid once stays so.
func (c *Controller) judge(ctx context.Context, key types.NamespacedName, o *observed, placements []v1alpha1.Placement) ([]v1alpha1.Placement, error) {
	o.void, o.undecided = nil, false
	var out []v1alpha1.Placement
	for i := range placements {
		p := &placements[i]
		if p.Spec.GangUID != o.gang.UID {
			continue // released as a stranger's
		}
		verdict, err := c.verdict(ctx, key, p)
		if err != nil {
			return nil, err
		}
		switch verdict {
		case fencing.Valid:
			out = append(out, *p)
		case fencing.Void:
			o.void = append(o.void, p)
		default:
			o.undecided = true
		}
	}
	return out, nil
}

// verdict judges a placement that was seen, by the fence as it is after that.
func (c *Controller) verdict(ctx context.Context, key types.NamespacedName, p *v1alpha1.Placement) (fencing.Verdict, error) {
	if c.isValid(key, p.UID) {
		return fencing.Valid, nil
	}
	state, err := fencing.Read(ctx, c.options.Live, c.options.FenceNamespace)
	if err != nil {
		return 0, fmt.Errorf("judging placement %s/%s: %w", p.Namespace, p.Name, err)
	}
	verdict := state.Judge(fencing.Of(p))
	if verdict != fencing.Valid {
		// It may have been adopted since the cache showed it.
		now := &v1alpha1.Placement{}
		err := c.options.Live.Get(ctx, types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, now)
		switch {
		case apierrors.IsNotFound(err) || err == nil && now.UID != p.UID:
			return fencing.Undecided, nil // gone: the cache will show that
		case err != nil:
			return 0, fmt.Errorf("reading placement %s/%s: %w", p.Namespace, p.Name, err)
		}
		verdict = state.Judge(fencing.Of(now))
	}
	if verdict == fencing.Valid {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.valid[key] == nil {
			c.valid[key] = map[types.UID]bool{}
		}
		c.valid[key][p.UID] = true
	}
	return verdict, nil
}

func (c *Controller) isValid(key types.NamespacedName, uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.valid[key][uid]
}

// undo removes placements that are void. No member was ever made of them. The
// number of the attempt is passed over first, so that none is used twice.
func (c *Controller) undo(ctx context.Context, g *v1alpha1.Gang, void []*v1alpha1.Placement) error {
	status := *g.Status.DeepCopy()
	for _, p := range void {
		if fencing.Burns(status.Attempt, p.Spec.Attempt, holds(g) || status.Phase == v1alpha1.GangDraining) {
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
	for _, p := range void {
		c.options.Log.Info("undoing a placement that a scheduler wrote after it had been replaced",
			"placement", p.Namespace+"/"+p.Name, "epoch", fencing.Of(p))
		if err := c.markPlacement(ctx, p); err != nil {
			return err
		}
		if err := c.freePlacement(ctx, p); err != nil {
			return err
		}
	}
	return nil
}
