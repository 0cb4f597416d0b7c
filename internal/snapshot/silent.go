package snapshot

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fencing"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// mostJournals is among how many placements of one gang a member is looked for.
const mostJournals = 4

// seating are the members of a Placement, as role-index.
type seating struct {
	uid     types.UID
	members map[string]bool
}

// seat is what a member's pod does to what the journal says of the member.
type seat struct {
	released  bool
	resources scheduling.Resources
}

// effect is what a change of a member's pod does to what decisions depend on.
type effect int

const (
	// unclear: its gang is to be looked at as a whole.
	unclear effect = iota
	// silent: nothing.
	silent
	// ends: the member holds nothing any more, and that is all.
	ends
)

// effect is what a member's pod changes, by what it was before and is now; nil:
// there was none, or is none any more. A gang of a thousand members whose pods
// come, start, report and end one after another is then not told to the core a
// thousand times.
func (m *mirror) effect(before, after *corev1.Pod) effect {
	one := after
	if one == nil {
		one = before
	}
	gang := conversion.GangOf(one)
	if gang == "" || before != nil && after != nil && !alike(before, after) {
		return unclear
	}
	g, member := m.gangs[gang], one.Labels[v1alpha1.LabelRole]+"-"+one.Labels[v1alpha1.LabelIndex]
	p := m.journalOf(gang, member)
	if g == nil || p == nil || !m.counts(p) || fencing.Spent(g.Status.Attempt, p.Spec.Attempt, draining(g)) {
		return unclear
	}
	was, known := m.seat(g, p, member, before)
	is, still := m.seat(g, p, member, after)
	gone := after == nil || conversion.Ended(after)
	switch {
	case !known || !still || was.released && (!is.released || before != nil && !conversion.Ended(before)) || is.released && !gone:
		return unclear // what runs though the journal knows it no more holds by itself
	case was.released:
		return silent
	case is.released:
		return ends
	case reflect.DeepEqual(was.resources, is.resources):
		return silent
	}
	return unclear
}

// alike reports that all that is read of a pod beside its end is the same
// before and after, for pods that are on a node.
func alike(a, b *corev1.Pod) bool {
	return a.UID == b.UID && conversion.GangOf(a) == conversion.GangOf(b) && a.Spec.NodeName != "" && a.Spec.NodeName == b.Spec.NodeName &&
		sameMap(a.Labels, b.Labels) && sameMap(read(a.Annotations), read(b.Annotations)) &&
		(a.Generation != 0 && a.Generation == b.Generation || equality.Semantic.DeepEqual(&a.Spec, &b.Spec))
}

// read are the annotations of a pod that anything depends on.
func read(annotations map[string]string) map[string]string {
	if _, some := annotations[v1alpha1.AnnotationClaimed]; !some {
		return annotations
	}
	out := maps.Clone(annotations)
	delete(out, v1alpha1.AnnotationClaimed)
	return out
}

func sameMap(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// journalOf is the only placement of a gang that names a member; nil if there is
// none, or several do, or there are many.
func (m *mirror) journalOf(gang types.UID, member string) *v1alpha1.Placement {
	if len(m.journal[gang]) > mostJournals {
		return nil
	}
	var found *v1alpha1.Placement
	for key, p := range m.journal[gang] {
		s := m.seatings[key]
		if s.members == nil || s.uid != p.UID {
			s = seating{uid: p.UID, members: make(map[string]bool, p.Spec.Count())}
			for at := range p.Spec.Each() {
				s.members[fmt.Sprintf("%s-%d", at.Role, at.Index)] = true
			}
			m.seatings[key] = s
		}
		if s.members[member] {
			if found != nil {
				return nil
			}
			found = p
		}
	}
	return found
}

// seat is what the journal's member comes to with a pod, or with none: see
// [world.placement]. It is false where that is not clear.
func (m *mirror) seat(g *v1alpha1.Gang, p *v1alpha1.Placement, member string, pod *corev1.Pod) (seat, bool) {
	done := slices.Contains(g.Status.Done, member)
	if pod == nil || conversion.Ended(pod) {
		var out seat
		at := slices.IndexFunc(g.Spec.Roles, func(r v1alpha1.GangRole) bool {
			return len(member) > len(r.Name) && member[:len(r.Name)] == r.Name && member[len(r.Name)] == '-' && conversion.MemberIndex(member[len(r.Name)+1:]) >= 0
		})
		if at < 0 {
			return out, false
		}
		out.resources, _ = m.gpus.Requests(&g.Spec.Roles[at].Template.Spec)
		out.released = done
		if pod != nil {
			byItself := pod.Status.Phase == corev1.PodSucceeded && pod.DeletionTimestamp == nil
			out.released = done || byItself || overFor(g, p)
		}
		return out, true
	}
	if pod.Spec.NodeName == "" {
		return seat{}, false
	}
	resources, _ := m.gpus.Requests(&pod.Spec)
	return seat{resources: resources}, true
}

// overFor reports that members of a Placement that have ended hold nothing.
func overFor(g *v1alpha1.Gang, p *v1alpha1.Placement) bool {
	return over(g, p.Spec.Attempt) || p.Spec.Extends != "" && p.DeletionTimestamp != nil
}
