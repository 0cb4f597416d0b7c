package gang

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fencing"
	"github.com/muster-dev/muster/internal/memberpod"
	"github.com/muster-dev/muster/internal/memberstatus"
	"github.com/muster-dev/muster/internal/startup"
)

// place is a member and the placement that names it: that of the attempt, or
// one that extends it.
type place struct {
	placement *v1alpha1.Placement
	member    v1alpha1.PlacedMember
}

// elastic reports whether a role may have more members than it starts with.
func elastic(r *v1alpha1.GangRole) bool { return r.MinReplicas != nil && *r.MinReplicas < r.Replicas }

// least is how many members of a role have to run for all to run that it is
// entitled to, of so many that are not done.
func least(r *v1alpha1.GangRole, undone int) int {
	if elastic(r) {
		return min(int(*r.MinReplicas), undone)
	}
	return undone
}

// madeFrom returns the pod that was made from an extension, nil if there is
// none.
func (o observed) madeFrom(p *v1alpha1.Placement) *corev1.Pod {
	for _, pod := range o.pods {
		if pod.Annotations[v1alpha1.AnnotationExtension] == p.Name && attemptOf(pod) == p.Spec.Attempt {
			return pod
		}
	}
	return nil
}

// madeOf reports whether a pod was made of this very extension, and not of
// another of its name.
func (o observed) madeOf(p *v1alpha1.Placement) bool {
	return slices.ContainsFunc(o.pods, func(pod *corev1.Pod) bool {
		return pod.Annotations[v1alpha1.AnnotationPlacement] == fencing.Origin(p)
	})
}

// staying are the extensions that hold a member of the present attempt: whole,
// not ordered back, not come twice, of a member that is not done and has no
// other place. Where two name one member, it is the one that has a pod, else the
// older.
func (o observed) staying(s *v1alpha1.GangStatus) []*v1alpha1.Placement {
	if o.placement == nil || len(o.extensions) == 0 {
		return nil
	}
	taken := map[string]bool{}
	for m := range o.placement.Spec.Each() {
		taken[memberName(m.Role, m.Index)] = true
	}
	candidates := slices.Clone(o.extensions)
	slices.SortFunc(candidates, func(a, b *v1alpha1.Placement) int {
		hasPod := func(p *v1alpha1.Placement) int {
			if o.madeFrom(p) != nil {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(hasPod(a), hasPod(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	var out []*v1alpha1.Placement
	for _, p := range candidates {
		if p.DeletionTimestamp != nil || p.Spec.Attempt != o.placement.Spec.Attempt || p.Spec.Extends != o.placement.Name || !o.fits(p) || o.refused(p) || o.returned[p.UID] {
			continue
		}
		name := memberName(p.Spec.Members[0].Role, p.Spec.Members[0].Index)
		if taken[name] || slices.Contains(s.Done, name) {
			continue
		}
		taken[name] = true
		out = append(out, p)
	}
	return out
}

// fits reports whether an extension names one member that the gang has, on a
// node that is there or on which its pod is, and that is not about to go.
func (o observed) fits(p *v1alpha1.Placement) bool {
	if p.Spec.Count() != 1 {
		return false
	}
	m := p.Spec.Members[0]
	r := memberpod.Role(o.gang, m.Role)
	if r == nil || !elastic(r) || m.Index < 0 || m.Index >= r.Replicas || m.Node < 0 || int(m.Node) >= len(p.Spec.Nodes) {
		return false
	}
	at := o.node(p.Spec.Nodes[m.Node])
	return !at.leaves && (o.madeFrom(p) != nil || at.there)
}

// refused reports whether the node did not take the pod of an extension, or put
// it out.
func (o observed) refused(p *v1alpha1.Placement) bool {
	pod := o.madeFrom(p)
	return pod != nil && (memberstatus.NeverRan(pod) || o.stuck(pod) || startup.Disrupted(pod))
}

// places are the members that have a place in the present attempt and are not
// done.
func (o observed) places(s *v1alpha1.GangStatus) []place {
	var out []place
	for _, p := range append([]*v1alpha1.Placement{o.placement}, o.staying(s)...) {
		for m := range p.Spec.Each() {
			if !slices.Contains(s.Done, memberName(m.Role, m.Index)) {
				out = append(out, place{p, m})
			}
		}
	}
	return out
}

// peers are all members that may look for one another: those of the attempt's
// own placement, done or not, and those that were added.
func (o observed) peers(s *v1alpha1.GangStatus) []place {
	var out []place
	for _, p := range append([]*v1alpha1.Placement{o.placement}, o.staying(s)...) {
		for m := range p.Spec.Each() {
			out = append(out, place{p, m})
		}
	}
	return out
}

// undone is how many members of a role are not done.
func undone(r *v1alpha1.GangRole, s *v1alpha1.GangStatus) int {
	n := 0
	for i := range r.Replicas {
		if !slices.Contains(s.Done, memberName(r.Name, i)) {
			n++
		}
	}
	return n
}

// complete reports whether every role has as many running as it is entitled to.
func (o observed) complete(s *v1alpha1.GangStatus, running map[string]int) bool {
	for i := range o.gang.Spec.Roles {
		r := &o.gang.Spec.Roles[i]
		if running[r.Name] < least(r, undone(r, s)) {
			return false
		}
	}
	return true
}

// waitsForRoom is the message of an attempt that has fewer members than it is
// entitled to, because others are done.
const waitsForRoom = "its first members are done; it waits for room for further ones"

// extras puts replicas that nodes did not take aside from other failures: the
// gang goes on without them, and grows again after a while. It returns the
// other failures.
func (o observed) extras(s *v1alpha1.GangStatus, failed []*corev1.Pod) []*corev1.Pod {
	var rest []*corev1.Pod
	for _, p := range failed {
		if p.Annotations[v1alpha1.AnnotationExtension] == "" || !memberstatus.NeverRan(p) {
			rest = append(rest, p)
			continue
		}
		o.growLater(s, fmt.Sprintf("node %s did not take %s: %s", p.Spec.NodeName, nameOf(p), nodeWords(p)))
	}
	for _, p := range o.pods {
		if p.Annotations[v1alpha1.AnnotationExtension] != "" && o.stuck(p) {
			o.avoid(s, p.Spec.NodeName, o.startWords(p))
			o.growLater(s, fmt.Sprintf("%s did not start on node %s within %s: %s", nameOf(p), p.Spec.NodeName, o.patience(p), o.startWords(p)))
		}
	}
	return rest
}

// growLater notes that a further replica was not taken, and why.
func (o observed) growLater(s *v1alpha1.GangStatus, why string) {
	s.GrowRefusals++
	wait := backoff(refusalBackoff, s.GrowRefusals)
	s.GrowNotBefore = inAWhile(o.now, wait)
	s.Reason, s.Message = v1alpha1.ReasonNotGrown, why+goesOn
}

// goesOn is the end of the message about a replica that was not taken.
const goesOn = "; it goes on without, and is given another later"

// grown notes that a further replica runs: if it was added after one was not
// taken, all is well again.
func grown(s *v1alpha1.GangStatus, p *v1alpha1.Placement) {
	if s.GrowNotBefore == nil || p.CreationTimestamp.Before(s.GrowNotBefore) {
		return
	}
	s.GrowRefusals, s.GrowNotBefore = 0, nil
	unsay(s, v1alpha1.ReasonNotGrown)
}

// recall orders back, on this controller's own account, extensions that do not
// stay.
func (c *Controller) recall(ctx context.Context, list []*v1alpha1.Placement) error {
	for _, p := range list {
		if p.Annotations[v1alpha1.AnnotationRecalled] == "" {
			marked := p.DeepCopy()
			if marked.Annotations == nil {
				marked.Annotations = map[string]string{}
			}
			marked.Annotations[v1alpha1.AnnotationRecalled] = "true"
			err := c.options.Client.Patch(ctx, marked, client.MergeFrom(p.DeepCopy()))
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return fmt.Errorf("marking placement %s/%s: %w", p.Namespace, p.Name, err)
			}
		}
		err := c.options.Client.Delete(ctx, p.DeepCopy(), client.Preconditions{UID: &p.UID})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting placement %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	return nil
}

// letGo releases extensions of which, past the cache, no pod is left but one of
// a member that is done. It returns false if one is.
func (c *Controller) letGo(ctx context.Context, g *v1alpha1.Gang, list []*v1alpha1.Placement) (bool, error) {
	all := true
	for _, p := range list {
		// Marked first, as every placement: a pod that is made of it later finds
		// the mark and is not started.
		if p.DeletionTimestamp == nil {
			if err := c.markPlacement(ctx, p); err != nil {
				return false, err
			}
		}
		held, err := c.holdsPod(ctx, g, p)
		if err != nil {
			return false, err
		}
		if held {
			all = false
			continue
		}
		have := &v1alpha1.Placement{}
		err = c.options.Live.Get(ctx, client.ObjectKeyFromObject(p), have)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("reading placement %s/%s: %w", p.Namespace, p.Name, err)
		}
		if have.UID != p.UID {
			continue
		}
		if err := c.freePlacement(ctx, have); err != nil {
			return false, err
		}
	}
	return all, nil
}

// holdsPod reports whether a pod that was made from an extension is there, past
// the cache, and may still hold what the extension names.
func (c *Controller) holdsPod(ctx context.Context, g *v1alpha1.Gang, p *v1alpha1.Placement) (bool, error) {
	for m := range p.Spec.Each() {
		pod := &corev1.Pod{}
		key := types.NamespacedName{Namespace: p.Namespace, Name: memberpod.Name(g.Name, m.Role, m.Index)}
		err := c.options.Live.Get(ctx, key, pod)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("reading pod %s: %w", key, err)
		}
		done := memberstatus.Ended(pod) && slices.Contains(g.Status.Done, nameOf(pod))
		if pod.Annotations[v1alpha1.AnnotationExtension] == p.Name && attemptOf(pod) == p.Spec.Attempt && !done {
			return true, nil
		}
	}
	return false, nil
}
