package gang

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/fencing"
	"github.com/muster-dev/muster/internal/memberstatus"
)

// maxGivenBack is how many replicas that were given back are named in the
// status.
const maxGivenBack = 16

// shrink decides what becomes of the extensions that do not stay, and of pods
// whose extension is gone. An attempt that ends gives all of them back with its
// own placement.
//
// That a replica was given back is counted once, by the UID of its placement,
// before the placement is let go.
func (o observed) shrink(d *decision) {
	s := &d.status
	ending := d.release || s.Phase == v1alpha1.GangDraining
	stays := map[string]bool{}
	if !ending && holdsNow(s) {
		for _, p := range o.staying(s) {
			stays[p.Name] = true
		}
	}
	known := map[string]bool{}
	for _, p := range o.extensions {
		known[p.Name] = true
		if ending || stays[p.Name] {
			continue
		}
		o.noteReturned(s, p)
		pod := o.madeFrom(p)
		if p.DeletionTimestamp == nil {
			d.recall = append(d.recall, p)
		} else if p.Spec.Attempt == s.Attempt {
			o.countShrunk(s, p)
		}
		if pod != nil && !o.isDone(s, pod) {
			if pod.DeletionTimestamp == nil {
				d.remove = append(d.remove, pod)
			}
			continue // it is let go once the pod is gone
		}
		d.drop = append(d.drop, p)
	}
	o.forgetShrunk(s)
	if ending {
		return
	}
	for _, pod := range o.pods {
		if name := pod.Annotations[v1alpha1.AnnotationExtension]; name != "" && !known[name] && !memberstatus.Ended(pod) && pod.DeletionTimestamp == nil {
			d.remove = append(d.remove, pod)
		}
	}
}

// noteReturned notes that an extension of this attempt is given back. It is
// written before the extension is let go: whoever sees the same request arrive
// once more, and reads the gang after that, knows.
func (o observed) noteReturned(s *v1alpha1.GangStatus, p *v1alpha1.Placement) {
	if number := fencing.GrowthOf(p); p.Spec.Attempt == s.Attempt && number.After(fencing.ParseGrowth(s.GivenBackUpTo)) {
		s.GivenBackUpTo = number.String()
	}
}

// holdsNow reports whether a status says that an attempt is under way.
func holdsNow(s *v1alpha1.GangStatus) bool {
	switch s.Phase {
	case v1alpha1.GangPlanned, v1alpha1.GangStarting, v1alpha1.GangRunning:
		return true
	}
	return false
}

// isDone reports whether a pod ended well and is of a member that is done.
func (o observed) isDone(s *v1alpha1.GangStatus, p *corev1.Pod) bool {
	return memberstatus.Ended(p) && slices.Contains(s.Done, nameOf(p))
}

// countShrunk counts a replica that was ordered back, unless it was done before
// it was told so, or was never a member.
func (o observed) countShrunk(s *v1alpha1.GangStatus, p *v1alpha1.Placement) {
	if p.Spec.Count() != 1 || slices.Contains(s.Counted, countedPrefix+string(p.UID)) {
		return
	}
	m := p.Spec.Members[0]
	name := memberName(m.Role, m.Index)
	whom := p.Annotations[v1alpha1.AnnotationGiveBack]
	if slices.Contains(s.Done, name) || o.refused(p) || p.Annotations[v1alpha1.AnnotationRecalled] != "" {
		return
	}
	if whom == "" {
		whom = "nobody that is known: its placement was deleted"
	}
	s.Counted = append(s.Counted, countedPrefix+string(p.UID))
	s.Shrunk++
	s.GivenBack = append(s.GivenBack, name+" for "+whom)
	if n := len(s.GivenBack) - maxGivenBack; n > 0 {
		s.GivenBack = slices.Clone(s.GivenBack[n:])
	}
	for i := range s.Roles {
		if s.Roles[i].Name == m.Role {
			s.Roles[i].Shrunk++
		}
	}
}

// countedPrefix tells the UIDs of placements from those of pods, among what is
// counted.
const countedPrefix = "placement/"

// forgetShrunk drops the UIDs of placements that are gone.
func (o observed) forgetShrunk(s *v1alpha1.GangStatus) {
	s.Counted = slices.DeleteFunc(s.Counted, func(counted string) bool {
		uid, is := strings.CutPrefix(counted, countedPrefix)
		return is && !slices.ContainsFunc(o.extensions, func(p *v1alpha1.Placement) bool { return string(p.UID) == uid })
	})
}
