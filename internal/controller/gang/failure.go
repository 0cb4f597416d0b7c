package gang

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/memberpod"
	"github.com/muster-dev/muster/internal/memberstatus"
	"github.com/muster-dev/muster/internal/startup"
)

// stopAttempt applies the failure policy to the pods that failed since the
// last decision and to members that vanished. It returns true if the attempt
// ends; the status then says whether the gang ends with it. Otherwise failed
// members are started again where they were.
//
// One node that can never run a member ends the gang, also where others might:
// the scheduler does not know why a node refused, and would choose it again.
func (o observed) stopAttempt(s *v1alpha1.GangStatus, failed []*corev1.Pod) bool {
	// 1. The plan itself is taken back.
	if o.placement.DeletionTimestamp != nil {
		o.stop(s, v1alpha1.ReasonPlacementDeleted, 0, "its place on the nodes was taken away from outside; it waits for another")
		return true
	}
	// 2. A node can never run a member as it is written.
	for _, p := range failed {
		if p.Status.Reason == v1alpha1.ReasonUnsupported {
			o.end(s, v1alpha1.GangFailed, v1alpha1.ReasonUnsupported, "node "+p.Spec.NodeName+" cannot run "+called(o.gang, nameOf(p))+": "+nodeWords(p))
			return true
		}
	}
	// 3. A node did not take a member now: nothing failed, the plan was wrong.
	for _, p := range failed {
		if memberstatus.NotTaken(p) {
			return o.refuse(s, p)
		}
	}
	if p := o.stuckMember(s); p != nil {
		return o.tooSlow(s, p)
	}
	// 4. Members that failed.
	for _, p := range failed {
		if o.fail(s, p) {
			return true
		}
	}
	// 5. Members that vanished without having ended.
	return o.vanished(s)
}

// refuse gives the whole attempt back, to be planned again after a while; too
// many in a row end the gang.
func (o observed) refuse(s *v1alpha1.GangStatus, p *corev1.Pod) bool {
	if memberstatus.Unclaimed(p) {
		return o.forbid(s, p.Status.Message)
	}
	s.Refusals++
	if s.Refusals >= maxRefusals {
		o.end(s, v1alpha1.GangFailed, v1alpha1.ReasonNodeRefused, "node "+p.Spec.NodeName+" refused "+called(o.gang, nameOf(p))+" again and again: "+nodeWords(p))
		return true
	}
	o.stop(s, v1alpha1.ReasonNodeRefused, backoff(refusalBackoff, s.Refusals), "node %s refused %s: %s", p.Spec.NodeName, called(o.gang, nameOf(p)), nodeWords(p))
	return true
}

// forbid gives the whole attempt back because a rule forbids it. A quota may grow, or others may
// leave room in it, and a policy may be corrected: this is tried again for as long as it takes.
func (o observed) forbid(s *v1alpha1.GangStatus, rule string) bool {
	s.Refusals = min(s.Refusals+1, maxForbidden)
	o.stop(s, v1alpha1.ReasonNotAllowed, backoff(refusalBackoff, s.Refusals), "it is not allowed to start now: %s", rule)
	return true
}

// nodeWords is why a node did not take a pod.
func nodeWords(p *corev1.Pod) string {
	switch {
	case startup.Refused(p) && p.Status.Message == "":
		return p.Status.Reason
	case startup.Refused(p):
		return p.Status.Reason + ": " + p.Status.Message
	case p.Status.Message == "":
		return "the node gave no reason"
	}
	return p.Status.Message
}

// fail counts one failure. It returns true if the attempt ends.
func (o observed) fail(s *v1alpha1.GangStatus, p *corev1.Pod) bool {
	role := memberpod.Role(o.gang, p.Labels[v1alpha1.LabelRole])
	text := memberstatus.FailureText(called(o.gang, nameOf(p)), p)
	switch {
	case role != nil && role.RestartPolicy == v1alpha1.RestartNever:
		o.end(s, v1alpha1.GangFailed, v1alpha1.ReasonMemberFailed, text+notRestarted(o.gang))
		return true
	case role != nil && role.RestartPolicy == v1alpha1.RestartExitCode && memberstatus.Permanent(p):
		o.end(s, v1alpha1.GangFailed, v1alpha1.ReasonMemberFailed, text+"; an exit code from 1 to 127 is not restarted (restartPolicy: ExitCode)")
		return true
	case s.Restarts >= o.gang.Spec.BackoffLimit:
		o.end(s, v1alpha1.GangFailed, v1alpha1.ReasonMemberFailed, text+limitText(s.Restarts))
		return true
	}
	s.Restarts++
	wait := backoff(restartBackoff, s.Restarts)
	if o.gang.Spec.Restart == v1alpha1.RestartScopeGang {
		o.stop(s, v1alpha1.ReasonMemberFailed, wait, "%s; %s started again (restart %d of %d)", text, everyone(o.gang), s.Restarts, o.gang.Spec.BackoffLimit)
		return true
	}
	s.NotBefore = inAWhile(o.now, wait)
	s.Reason, s.Message = "", ""
	return false
}

// notRestarted is why a failure is the end of a gang whose role is not to be
// restarted.
func notRestarted(g *v1alpha1.Gang) string {
	if alone(g) {
		return "; it is not to be restarted"
	}
	return "; its role is not to be restarted"
}

// everyone is the subject of what happens to all members together.
func everyone(g *v1alpha1.Gang) string {
	if alone(g) {
		return "it is"
	}
	return "all members are"
}

func limitText(restarts int32) string {
	switch restarts {
	case 0:
		return "; no restart is allowed"
	case 1:
		return " after 1 restart, which is all that is allowed"
	}
	return fmt.Sprintf(" after all %d restarts that are allowed", restarts)
}

// vanished deals with members whose pods were deleted by someone else. A
// member alone is made again where it was, unless its node is gone; a
// collective starts again as a whole, which counts as a failure, and does so as
// soon as the member is told to end: the others can do nothing without it.
func (o observed) vanished(s *v1alpha1.GangStatus) bool {
	present := map[string]bool{}
	for _, p := range o.pods {
		ends := p.DeletionTimestamp != nil && o.gang.Spec.Restart == v1alpha1.RestartScopeGang
		present[nameOf(p)] = present[nameOf(p)] || !ends
	}
	for m := range o.placement.Spec.Each() {
		name := memberName(m.Role, m.Index)
		if present[name] || slices.Contains(s.Done, name) || m.Node < 0 || int(m.Node) >= len(o.placement.Spec.Nodes) {
			continue
		}
		if node := o.placement.Spec.Nodes[m.Node]; !o.node(node).there {
			o.stop(s, v1alpha1.ReasonNodeLeaves, 0, "node %s, which ran %s, is gone; another place is looked for", node, called(o.gang, name))
			return true
		}
		if o.gang.Status.Phase != v1alpha1.GangRunning || o.gang.Spec.Restart != v1alpha1.RestartScopeGang {
			continue
		}
		if s.Restarts >= o.gang.Spec.BackoffLimit {
			o.end(s, v1alpha1.GangFailed, v1alpha1.ReasonMemberDeleted, called(o.gang, name)+" was deleted from outside"+limitText(s.Restarts))
			return true
		}
		s.Restarts++
		o.stop(s, v1alpha1.ReasonMemberDeleted, backoff(restartBackoff, s.Restarts), "%s was deleted from outside; %s started again (restart %d of %d)",
			called(o.gang, name), everyone(o.gang), s.Restarts, o.gang.Spec.BackoffLimit)
		return true
	}
	return false
}
