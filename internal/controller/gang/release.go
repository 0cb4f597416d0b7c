package gang

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fencing"
)

// few is up to how many members are looked for by their names. A list by a label
// costs the API server a look at every pod of the namespace.
const few = 8

// releaseOf gives back what a gang that was observed holds.
func (c *Controller) releaseOf(ctx context.Context, o observed, d decision) (bool, error) {
	g := o.gang
	p := o.placement
	if p == nil || p.Spec.Attempt != d.status.Attempt || len(o.extensions) > 0 || len(p.Spec.Members) > few || slices.ContainsFunc(g.Spec.Roles, func(r v1alpha1.GangRole) bool { return elastic(&r) }) {
		return c.release(ctx, g.Namespace, g.Name, g.UID, d.keep)
	}
	// Nothing but this placement is held: those of earlier attempts were given
	// back before it was made, and one of them that comes late is spent.
	// 1. Mark.
	if fencing.Release(p.DeletionTimestamp != nil, 0) == fencing.Mark {
		if err := c.markPlacement(ctx, p); err != nil {
			return false, err
		}
	}
	// 2. Look.
	left := 0
	for i := range p.Spec.Members {
		pod, err := c.member(ctx, g, &p.Spec.Members[i])
		if err != nil {
			return false, err
		}
		if pod != nil && !d.keep(pod) {
			left++
		}
	}
	// 3. Free.
	if fencing.Release(true, left) != fencing.Free {
		return false, nil
	}
	return true, c.freePlacement(ctx, p)
}

// member reads a member's pod past the cache; nil if the gang has none.
func (c *Controller) member(ctx context.Context, g *v1alpha1.Gang, m *v1alpha1.PlacedMember) (*corev1.Pod, error) {
	key := types.NamespacedName{Namespace: g.Namespace, Name: podName(g.Name, m.Role, m.Index)}
	pod := &corev1.Pod{}
	err := c.options.Live.Get(ctx, key, pod)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading pod %s: %w", key, err)
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner == nil || owner.UID != g.UID {
		return nil, nil
	}
	return pod, nil
}
