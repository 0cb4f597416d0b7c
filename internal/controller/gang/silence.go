package gang

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/departure"
	"github.com/muster-dev/muster/internal/memberstatus"
)

// silencePatience is the time for which an attempt waits for a node that does not answer and that
// has not taken a member yet.
const silencePatience = time.Minute

// unheard is the silence of a pod's node if that node has never reported on the pod: a kubelet sets
// the pod's start time as soon as it sees it.
func (o observed) unheard(p *corev1.Pod) (departure.Silence, bool) {
	if p.Status.StartTime != nil || p.Spec.NodeName == "" || memberstatus.Ended(p) || o.node == nil {
		return departure.Silence{}, false
	}
	at := o.node(p.Spec.NodeName)
	return at.silence, at.silent
}

// followNodes names a silent node with a member.
func (o observed) followNodes(s *v1alpha1.GangStatus) {
	var first *corev1.Pod
	for _, p := range o.pods {
		if memberstatus.Ended(p) || p.DeletionTimestamp != nil || attemptOf(p) != s.Attempt || !o.node(p.Spec.NodeName).silent {
			continue
		}
		if first == nil || p.Spec.NodeName < first.Spec.NodeName {
			first = p
		}
	}
	if first == nil {
		unsay(s, v1alpha1.ReasonNodeUnreachable)
		return
	}
	node := first.Spec.NodeName
	s.Reason = v1alpha1.ReasonNodeUnreachable
	s.Message = fmt.Sprintf("it waits for node %s, which %s", node, o.node(node).silence.Words(o.clock))
	if first.Status.Phase == corev1.PodRunning {
		s.Message = fmt.Sprintf("node %s, which runs %s, %s", node, called(o.gang, nameOf(first)), o.node(node).silence.Words(o.clock))
	}
}

// giveUpOn gives an attempt back because the node of a member never took it, and does not answer.
// It is no failure: the members may start elsewhere.
func (o observed) giveUpOn(s *v1alpha1.GangStatus, p *corev1.Pod, silence departure.Silence) bool {
	node, words := p.Spec.NodeName, silence.Words(o.clock)
	o.avoid(s, node, words)
	o.stop(s, v1alpha1.ReasonNodeUnreachable, 0, "node %s, to which %s was given, %s; the scheduler looks for another place", node, called(o.gang, nameOf(p)), words)
	return true
}

// unheardPods gives no grace period to pods that their node never took, if that node
// does not answer: no kubelet would end them.
func (o observed) unheardPods(notice func(*corev1.Pod) *int64) func(*corev1.Pod) *int64 {
	if !slices.ContainsFunc(o.pods, func(p *corev1.Pod) bool { _, is := o.unheard(p); return is }) {
		return notice
	}
	return func(p *corev1.Pod) *int64 {
		if _, is := o.unheard(p); is {
			return new(int64)
		}
		return notice(p)
	}
}

// clock writes a time for people.
func (o observed) clock(at time.Time) string {
	at, now := at.In(o.location), o.now.In(o.location)
	if at.Year() == now.Year() && at.YearDay() == now.YearDay() {
		return at.Format("15:04")
	}
	return at.Format("2006-01-02 15:04")
}
