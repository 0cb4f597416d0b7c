package gang

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fencing"
	"github.com/muster-dev/muster/internal/memberpod"
)

// few is up to how many members are looked for by their names. A list by a label
// costs the API server a look at every pod of the namespace.
const few = 8

// look marks what a gang that was observed holds, and returns it, and whether
// past the cache no pod is left but those to keep: then it may be freed.
func (c *Controller) look(ctx context.Context, o observed, d decision) ([]*v1alpha1.Placement, bool, error) {
	g, p := o.gang, o.placement
	if p == nil || p.Spec.Attempt != d.status.Attempt || len(o.extensions) > 0 || p.Spec.Count() > few || slices.ContainsFunc(g.Spec.Roles, func(r v1alpha1.GangRole) bool { return elastic(&r) }) {
		return c.lookAll(ctx, g.Namespace, g.Name, g.UID, d.keep)
	}
	// Nothing but this placement is held: those of earlier attempts were given
	// back before it was made, and one of them that comes late is spent.
	if fencing.Release(p.DeletionTimestamp != nil, 0) == fencing.Mark {
		if err := c.markPlacement(ctx, p); err != nil {
			return nil, false, err
		}
	}
	left := 0
	for m := range p.Spec.Each() {
		key := types.NamespacedName{Namespace: g.Namespace, Name: memberpod.Name(g.Name, m.Role, m.Index)}
		pod, err := c.livePod(ctx, key, g.UID)
		if err != nil {
			return nil, false, err
		}
		if pod != nil && !d.keep(pod) {
			left++
		}
	}
	return []*v1alpha1.Placement{p}, fencing.Release(true, left) == fencing.Free, nil
}

// lookAll does so for every placement of one gang's life, whatever the cache
// knows of them.
//
// They are marked first, and the pods listed after that: a pod that is made
// later, by a request that was under way, finds the mark and is not started.
func (c *Controller) lookAll(ctx context.Context, namespace, name string, uid types.UID, keep func(*corev1.Pod) bool) ([]*v1alpha1.Placement, bool, error) {
	all, err := placementsOf(ctx, c.options.Live, live(name), namespace, name)
	if err != nil {
		return nil, false, err
	}
	var held []*v1alpha1.Placement
	for i := range all {
		p := &all[i]
		if p.Spec.GangUID != uid {
			continue
		}
		held = append(held, p)
		if fencing.Release(p.DeletionTimestamp != nil, 0) != fencing.Mark {
			continue
		}
		if err := c.markPlacement(ctx, p); err != nil {
			return nil, false, err
		}
	}
	pods, err := c.livePods(ctx, namespace, name, uid)
	if err != nil {
		return nil, false, err
	}
	left := len(slices.DeleteFunc(pods, keep))
	return held, fencing.Release(true, left) == fencing.Free, nil
}

// livePods lists the pods of a gang past the cache: those with its label, and those that
// the cache shows as the gang's although their label is another.
func (c *Controller) livePods(ctx context.Context, namespace, name string, uid types.UID) ([]*corev1.Pod, error) {
	pods, err := podsOf(ctx, c.options.Live, live(name), namespace, name, uid)
	if err != nil {
		return nil, err
	}
	seen, err := podsOf(ctx, c.options.Client, cached(name), namespace, name, uid)
	if err != nil {
		return nil, err
	}
	listed := map[types.UID]bool{}
	for _, p := range pods {
		listed[p.UID] = true
	}
	for _, p := range seen {
		if listed[p.UID] {
			continue
		}
		have, err := c.livePod(ctx, client.ObjectKeyFromObject(p), uid)
		if err != nil {
			return nil, err
		}
		if have != nil {
			pods = append(pods, have)
		}
	}
	return pods, nil
}

// free lets marked placements go.
func (c *Controller) free(ctx context.Context, held []*v1alpha1.Placement) error {
	for _, p := range held {
		if err := c.freePlacement(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// livePod reads a pod past the cache; nil if the gang of this UID does not control it.
func (c *Controller) livePod(ctx context.Context, key types.NamespacedName, uid types.UID) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := c.options.Live.Get(ctx, key, pod)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading pod %s: %w", key, err)
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner == nil || owner.UID != uid {
		return nil, nil
	}
	return pod, nil
}
