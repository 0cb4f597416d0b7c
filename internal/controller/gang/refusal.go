package gang

import (
	"slices"
	"strings"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// coolOff is for how long a node that did not take a member is not used for the
// gang, times the refusals in a row.
const coolOff = time.Minute

// maxAvoided is how many nodes are remembered, the last that were entered, and
// maxWhy how many characters of what they said.
const (
	maxAvoided = 16
	maxWhy     = 512
)

// avoid lets a node cool off: the next attempts are planned on others.
func (o observed) avoid(s *v1alpha1.GangStatus, node, why string) {
	if node == "" {
		return
	}
	if len(why) > maxWhy {
		why = strings.ToValidUTF8(why[:maxWhy-3], "") + "..."
	}
	nth := min(max(1, s.Refusals+s.StartTimeouts), 10)
	s.Avoided = slices.DeleteFunc(slices.Clone(s.Avoided), func(a v1alpha1.AvoidedNode) bool { return a.Node == node })
	s.Avoided = append(s.Avoided, v1alpha1.AvoidedNode{Node: node, Until: *inAWhile(o.now, time.Duration(nth)*coolOff), Why: why})
	if n := len(s.Avoided) - maxAvoided; n > 0 {
		s.Avoided = s.Avoided[n:]
	}
}

// forgive lets nodes be used again that have cooled off.
func (o observed) forgive(s *v1alpha1.GangStatus) {
	if slices.ContainsFunc(s.Avoided, func(a v1alpha1.AvoidedNode) bool { return !o.now.Before(a.Until.Time) }) {
		s.Avoided = slices.DeleteFunc(slices.Clone(s.Avoided), func(a v1alpha1.AvoidedNode) bool { return !o.now.Before(a.Until.Time) })
	}
	if len(s.Avoided) == 0 {
		s.Avoided = nil
	}
}

// nextForgiven is when the first of the nodes has cooled off; 0: there is none.
func (o observed) nextForgiven(s *v1alpha1.GangStatus) time.Duration {
	var next time.Duration
	for _, a := range s.Avoided {
		if wait := max(time.Millisecond, a.Until.Sub(o.now)); next == 0 || wait < next {
			next = wait
		}
	}
	return next
}
