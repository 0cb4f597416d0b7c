package gang

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/memberstatus"
	"github.com/muster-dev/muster/internal/startup"
)

// soonPasses is the time after which the status shows an error that usually passes: the volume of a
// new claim takes a moment.
const soonPasses = 3 * time.Second

// startTimeout is how long a member may take to start where the gang does not say.
const startTimeout = 10 * time.Minute

// fault returns the fault that keeps a pod from starting; false if its node reports none. Data that
// is on its way is no fault, and has a patience of its own.
func (o observed) fault(p *corev1.Pod) (startup.Fault, bool) {
	f, is := startup.Of(p, o.warnings(p))
	if is && !f.Since.IsZero() && memberstatus.AwaitedData(p) != nil {
		return startup.Fault{}, false
	}
	return f, is
}

// warnings are the events of a pod that its node wrote.
func (o observed) warnings(p *corev1.Pod) []corev1.Event {
	if o.events == nil {
		return nil
	}
	return o.events(p)
}

// patience is how long a pod may take to start.
func (o observed) patience(p *corev1.Pod) time.Duration {
	limit := startTimeout
	if t := o.gang.Spec.StartTimeout; t != nil {
		limit = t.Duration
	}
	f, is := o.fault(p)
	switch _, unheard := o.unheard(p); {
	case memberstatus.HopelessData(memberstatus.AwaitedData(p)):
		return 0
	case unheard:
		return min(limit, silencePatience)
	case is:
		return f.Cause.Patience(limit)
	}
	return limit
}

// startDeadline is when a pod that has not started is given up; false for one
// that has, is being deleted, or whose init containers run: they take the time
// that they take.
func (o observed) startDeadline(p *corev1.Pod) (time.Time, bool) {
	if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodPending && p.Status.Phase != "" {
		return time.Time{}, false
	}
	since := p.CreationTimestamp.Time
	since = later(since, later(o.began, o.advances(p)))
	if f, is := o.fault(p); is {
		since = later(since, f.Since)
	}
	if silence, is := o.unheard(p); is {
		since = later(since, silence.Since)
	}
	for _, c := range p.Status.InitContainerStatuses {
		switch t := c.State.Terminated; {
		case startup.RunsBeside(p, c.Name): // it runs as long as the pod does
		case c.State.Running != nil:
			return time.Time{}, false
		case t != nil && t.FinishedAt.After(since):
			since = t.FinishedAt.Time
		}
	}
	return since.Add(o.patience(p)), true
}

// stuck reports whether a pod has had the time that it may take to start.
func (o observed) stuck(p *corev1.Pod) bool {
	at, waits := o.startDeadline(p)
	return waits && !o.now.Before(at)
}

// stuckMember is a member of the attempt's own placement that does not start;
// nil if there is none.
func (o observed) stuckMember(s *v1alpha1.GangStatus) *corev1.Pod {
	for _, p := range o.pods {
		if p.Annotations[v1alpha1.AnnotationExtension] == "" && attemptOf(p) == s.Attempt && o.stuck(p) {
			return p
		}
	}
	return nil
}

// nextStuck is when the first of the pods is given up if it has not started by
// then; 0: none waits.
func (o observed) nextStuck() time.Duration {
	var next time.Duration
	for _, p := range o.pods {
		at, waits := o.startDeadline(p)
		if !waits {
			continue
		}
		if f, is := o.fault(p); is && f.Cause == startup.Slow {
			if said := p.CreationTimestamp.Add(soonPasses); o.now.Before(said) && said.Before(at) {
				at = said
			}
		}
		if wait := max(time.Millisecond, at.Sub(o.now)); next == 0 || wait < next {
			next = wait
		}
	}
	return next
}

// followStart writes a node's error into the status while members are not started: an image that
// does not exist, a Secret that lacks a key. The node tries again, and the user may mend it before
// the attempt is given back.
func (o observed) followStart(s *v1alpha1.GangStatus) {
	var first *corev1.Pod
	var fault startup.Fault
	others := 0
	for _, p := range o.pods {
		if _, waits := o.startDeadline(p); !waits || attemptOf(p) != s.Attempt {
			continue
		}
		f, is := o.fault(p)
		switch {
		case !is, f.Cause == startup.Slow && o.now.Sub(p.CreationTimestamp.Time) < soonPasses:
			continue
		case first == nil:
			first, fault = p, f
			continue
		case nameOf(p) < nameOf(first):
			first, fault = p, f
		}
		others++
	}
	if first == nil {
		unsay(s, v1alpha1.ReasonCannotStart)
		return
	}
	s.Reason = v1alpha1.ReasonCannotStart
	s.Message = fmt.Sprintf("%s is not started yet: node %s reports %s", called(o.gang, nameOf(first)), first.Spec.NodeName, fault.Words)
	if others > 0 {
		s.Message += fmt.Sprintf(" (and %d more)", others)
	}
}

// unsay removes the message of a reason from the status.
func unsay(s *v1alpha1.GangStatus, reason string) {
	if s.Reason == reason {
		s.Reason, s.Message = "", ""
	}
}

// tooSlow gives an attempt back of which a member does not start; too many in a
// row end the gang, and so does an image whose name is none.
func (o observed) tooSlow(s *v1alpha1.GangStatus, p *corev1.Pod) bool {
	if silence, is := o.unheard(p); is {
		return o.giveUpOn(s, p, silence)
	}
	who, why := called(o.gang, nameOf(p)), o.startWords(p)
	f, is := o.fault(p)
	s.StartTimeouts++
	if !is || f.Cause.Elsewhere() {
		o.avoid(s, p.Spec.NodeName, "did not start it: "+why)
	}
	text := fmt.Sprintf("%s did not start on node %s", who, p.Spec.NodeName)
	if limit := o.patience(p); limit > 0 {
		text += " within " + limit.String()
	}
	reason, wait, limit := v1alpha1.ReasonStartTimeout, backoff(refusalBackoff, s.StartTimeouts), startup.Slow.Attempts()
	if is {
		reason, wait, limit = v1alpha1.ReasonCannotStart, f.Cause.Backoff(s.StartTimeouts), f.Cause.Attempts()
	}
	data := memberstatus.AwaitedData(p)
	switch {
	case limit == 1, data != nil && data.Reason == string(v1alpha1.DataLost):
		o.end(s, v1alpha1.GangFailed, reason, text+": "+why)
	case s.StartTimeouts >= limit:
		o.end(s, v1alpha1.GangFailed, reason, fmt.Sprintf("%s, and neither did the %d attempts before: %s", text, s.StartTimeouts-1, why))
	default:
		o.stop(s, reason, wait, "%s: %s", text, why)
	}
	return true
}

// startWords is why a pod has not started, in the node's words.
func (o observed) startWords(p *corev1.Pod) string {
	if c := memberstatus.AwaitedData(p); c != nil {
		if _, is := o.fault(p); !is {
			return onItsWay + c.Message
		}
	}
	return startup.Words(p, o.warnings(p))
}
