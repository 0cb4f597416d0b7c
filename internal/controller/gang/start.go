package gang

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// The limits of starting.
const (
	// startTimeout is how long a member may take to start where the gang does not
	// say.
	startTimeout = 10 * time.Minute
	// faultPatience is how long a node may say that the image, or the container's
	// configuration, is at fault: it tries several times in that time.
	faultPatience = 3 * time.Minute
	// maxStarts is how many attempts in a row may not start.
	maxStarts = 3
)

// imageFaults are the reasons of a container that waits by which a kubelet says that
// something is wrong, and hopeless those that trying again there does not mend.
var (
	imageFaults = []string{
		"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError", "SignatureValidationFailed",
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CreatePodSandboxError",
		crashing, // of one that runs beside the others, without which they do not start
	}
	hopeless = []string{"InvalidImageName", "ErrImageNeverPull"}
)

// crashing is the reason of a container that ends again and again.
const crashing = "CrashLoopBackOff"

// complaint is what a kubelet says is wrong with the start of a pod's containers;
// nil if nothing is.
func complaint(p *corev1.Pod) *corev1.ContainerStateWaiting {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		w := c.State.Waiting
		if w == nil || !slices.Contains(imageFaults, w.Reason) && !slices.Contains(hopeless, w.Reason) {
			continue
		}
		if last := c.LastTerminationState.Terminated; w.Reason == crashing && last != nil {
			said := strings.TrimSpace(last.Message)
			if said == "" {
				said = fmt.Sprintf("exit code %d", last.ExitCode)
			}
			return &corev1.ContainerStateWaiting{Reason: w.Reason, Message: fmt.Sprintf("container %s: %s", c.Name, said)}
		}
		return w
	}
	return nil
}

// patience is how long a pod may take to start.
func (o observed) patience(p *corev1.Pod) time.Duration {
	limit := startTimeout
	if t := o.gang.Spec.StartTimeout; t != nil {
		limit = t.Duration
	}
	switch w := complaint(p); {
	case w != nil && slices.Contains(hopeless, w.Reason), hopelessData(awaitedData(p)):
		return 0
	case w != nil:
		return min(limit, faultPatience)
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
	for _, c := range p.Status.InitContainerStatuses {
		switch t := c.State.Terminated; {
		case beside(p, c.Name): // it runs as long as the pod does
		case c.State.Running != nil:
			return time.Time{}, false
		case t != nil && t.FinishedAt.After(since):
			since = t.FinishedAt.Time
		}
	}
	return since.Add(o.patience(p)), true
}

// beside reports whether an init container runs beside the others.
func beside(p *corev1.Pod, name string) bool {
	return slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	})
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
		if wait := max(time.Millisecond, at.Sub(o.now)); next == 0 || wait < next {
			next = wait
		}
	}
	return next
}

// notYetStarted begins what a gang says while nodes complain about starting its members.
const notYetStarted = "not started yet: "

// followStart says what nodes complain about while members are not started: an image
// that is not there, a Secret that lacks a key. They try again, and so may whoever reads
// this mend it before the attempt is given back.
func (o observed) followStart(s *v1alpha1.GangStatus) {
	var first *corev1.Pod
	others := 0
	for _, p := range o.pods {
		switch _, waits := o.startDeadline(p); {
		case !waits || attemptOf(p) != s.Attempt || complaint(p) == nil:
		case first == nil:
			first = p
		default:
			others++
			if nameOf(p) < nameOf(first) {
				first = p
			}
		}
	}
	if first == nil {
		if strings.HasPrefix(s.Message, notYetStarted) {
			s.Message = ""
		}
		return
	}
	s.Message = fmt.Sprintf("%s%s on node %s: %s", notYetStarted, called(o.gang, nameOf(first)), first.Spec.NodeName, o.startWords(first))
	if others > 0 {
		s.Message += fmt.Sprintf(" (and %d more)", others)
	}
}

// tooSlow gives an attempt back of which a member does not start; too many in a
// row end the gang, and so does an image whose name is none.
func (o observed) tooSlow(s *v1alpha1.GangStatus, p *corev1.Pod) bool {
	who, why := called(o.gang, nameOf(p)), o.startWords(p)
	s.StartTimeouts++
	o.avoid(s, p.Spec.NodeName, "did not start it: "+why)
	text := fmt.Sprintf("%s did not start on node %s", who, p.Spec.NodeName)
	if limit := o.patience(p); limit > 0 {
		text += " within " + limit.String()
	}
	w, data := complaint(p), awaitedData(p)
	switch {
	case w != nil && w.Reason == "InvalidImageName", data != nil && data.Reason == string(v1alpha1.DataLost):
		o.end(s, v1alpha1.GangFailed, text+": "+why)
	case s.StartTimeouts >= maxStarts:
		o.end(s, v1alpha1.GangFailed, fmt.Sprintf("%s, and neither did the %d attempts before: %s", text, maxStarts-1, why))
	default:
		o.stop(s, backoff(refusalBackoff, s.StartTimeouts), "%s: %s", text, why)
	}
	return true
}

// startWords is why a pod has not started, in the node's words.
func (o observed) startWords(p *corev1.Pod) string {
	if w := complaint(p); w != nil {
		return strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
	}
	if c := awaitedData(p); c != nil {
		return onItsWay + c.Message
	}
	if o.warning != nil {
		if text := o.warning(p); text != "" {
			return text
		}
	}
	for _, c := range p.Status.InitContainerStatuses {
		if beside(p, c.Name) && c.State.Running != nil && (c.Started == nil || !*c.Started) {
			return fmt.Sprintf("container %s runs, and is not ready: its log says why", c.Name) // the others wait for it
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Reason != "" {
			text := strings.TrimSuffix(w.Reason+": "+w.Message, ": ")
			if c.Image != "" {
				text += " (image " + c.Image + ")" // most often it is being pulled
			}
			return text
		}
	}
	return "the node says nothing about it"
}
