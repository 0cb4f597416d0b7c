package workshop

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/environment"
)

const (
	// startWithin is for how long a build that has a node may not start: its image
	// cannot be pulled, or its node has no agent.
	startWithin = 10 * time.Minute
	// pullWithin is the same for an image of which the kubelet says that it cannot
	// be had.
	pullWithin = time.Minute
	// storeWithin is how long what was built may be on its way to the store.
	storeWithin = time.Hour
	// foundWithin is the same where it only has to be found, on this machine: it may
	// have been finished after it was looked for.
	foundWithin = 10 * time.Second
	// retryAfter is for how long a failure stands, before another job has it tried
	// again.
	retryAfter = 30 * time.Second
)

// action is what is to be done about a build's pod.
type action string

const (
	nothing action = ""
	create  action = "create"
	remove  action = "remove"
)

// observed is what is known of an environment that is not in the store.
type observed struct {
	build
	// pod is the build. Nil: there is none.
	pod *corev1.Pod
	// here says that it is built where it is kept.
	here bool
	now  time.Time
}

// decide says how a build stands, and what is to be done about its pod.
func decide(o observed) (environment.State, action) {
	building := func(format string, args ...any) environment.State {
		return environment.State{Phase: environment.Building, Key: o.key, Message: fmt.Sprintf(format, args...)}
	}
	failed := func(format string, args ...any) environment.State {
		return environment.State{Phase: environment.Failed, Key: o.key, Message: environment.Mask(fmt.Sprintf(format, args...))}
	}
	p := o.pod
	switch {
	case p == nil:
		return building("a pod is made that installs the requirements in the image %s", o.image), create
	case !p.DeletionTimestamp.IsZero():
		return building("waiting until an earlier build, pod %s, is gone", p.Name), nothing
	case !builds(p, o.key):
		return building("a pod named %s is in the way: delete it (kubectl -n %s delete pod %s)", p.Name, p.Namespace, p.Name), nothing
	}
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		return o.ended(building, failed)
	case corev1.PodFailed:
		if why := taken(p); why != "" {
			return building("the build was taken off node %s (%s) and begins anew", p.Spec.NodeName, why), remove
		}
		if o.now.Sub(endOf(p)) > retryAfter {
			return building("an earlier build failed; it is tried again"), remove
		}
		return failed("%s", why(p)), nothing
	case corev1.PodRunning:
		return building("being installed by pod %s on node %s (kubectl -n %s logs -f %s shows it)", p.Name, p.Spec.NodeName, p.Namespace, p.Name), nothing
	}
	return o.begins(building, failed)
}

// tells makes a state of a message.
type tells func(format string, args ...any) environment.State

// ended is a build that succeeded, and that the agent of its node brings to the
// store.
func (o observed) ended(building, failed tells) (environment.State, action) {
	p, since := o.pod, o.now.Sub(endOf(o.pod))
	refused := p.Annotations[v1alpha1.AnnotationRefused]
	switch {
	case o.here && since > foundWithin:
		return building("what an earlier build made is not on this machine any more; it begins anew"), remove
	case o.here:
		return building("built; it is looked for"), nothing
	case since > storeWithin+retryAfter:
		return building("what an earlier build made did not come to the store; it is tried again"), remove
	case refused != "":
		return failed("it was built, and the store does not take it: %s", refused), nothing
	case since > storeWithin:
		return failed("it was built on node %s, and did not come to the store within %s: does Muster's agent run there? kubectl -n %s get pods -o wide says",
			p.Spec.NodeName, storeWithin, v1alpha1.SystemNamespace), nothing
	}
	return building("built; node %s brings it to the store", p.Spec.NodeName), nothing
}

// hopeless are the reasons of waiting containers that do not pass.
var hopeless = []string{"InvalidImageName", "ErrImageNeverPull", v1alpha1.ReasonUnsupported}

// begins is a build that has not started yet.
func (o observed) begins(building, failed tells) (environment.State, action) {
	p := o.pod
	if p.Spec.NodeName == "" {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message != "" {
				return building("pod %s waits for a node: %s", p.Name, c.Message), nothing
			}
		}
		return building("pod %s waits for a node", p.Name), nothing
	}
	since := o.now.Sub(boundAt(p))
	for i := range p.Status.ContainerStatuses {
		w := p.Status.ContainerStatuses[i].State.Waiting
		if w == nil || w.Reason == "" || w.Reason == "ContainerCreating" || w.Reason == "PodInitializing" {
			continue
		}
		if since > pullWithin || slices.Contains(hopeless, w.Reason) {
			return failed("the build cannot start in the image %s on node %s: %s: %s", o.image, p.Spec.NodeName, w.Reason, w.Message), nothing
		}
		return building("pod %s starts on node %s: %s", p.Name, p.Spec.NodeName, w.Reason), nothing
	}
	if since > startWithin {
		return failed("pod %s did not start on node %s within %s: kubectl -n %s describe pod %s says why", p.Name, p.Spec.NodeName, startWithin, p.Namespace, p.Name), nothing
	}
	return building("pod %s starts on node %s", p.Name, p.Spec.NodeName), nothing
}

// builds reports whether a pod builds the environment of a key.
func builds(p *corev1.Pod, key string) bool {
	return p.Labels[v1alpha1.LabelBuild] == key[:63] && slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.CSI != nil && v.CSI.Driver == v1alpha1.EnvironmentDriver && v.CSI.VolumeAttributes["key"] == key
	})
}

// taken says by what a build was ended that is no fault of its own; empty if by
// none such.
func taken(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return cmp.Or(c.Reason, "evicted")
		}
	}
	switch r := p.Status.Reason; {
	case r == "Evicted", r == "NodeLost", r == "Terminated", r == "Shutdown", r == "Preempting", r == "NodeAffinity", r == "UnexpectedAdmissionError",
		strings.HasPrefix(r, "OutOf"):
		return r
	}
	for i := range p.Status.ContainerStatuses {
		// Its node, started anew, does not know what became of it.
		if t := p.Status.ContainerStatuses[i].State.Terminated; t != nil && t.Reason == "ContainerStatusUnknown" {
			return t.Reason
		}
	}
	return ""
}

// why is why a build failed, in the words of whoever knows best.
func why(p *corev1.Pod) string {
	if p.Status.Reason == "DeadlineExceeded" {
		limit := time.Duration(0)
		if s := p.Spec.ActiveDeadlineSeconds; s != nil {
			limit = time.Duration(*s) * time.Second
		}
		return fmt.Sprintf("it was not built within %s, which is as long as a build may take here", limit)
	}
	for i := range p.Status.ContainerStatuses {
		t := p.Status.ContainerStatuses[i].State.Terminated
		switch {
		case t == nil:
		case t.Reason == "OOMKilled":
			return "the build used more memory than the node could give it"
		case strings.TrimSpace(t.Message) != "":
			return strings.TrimSpace(t.Message)
		default:
			return fmt.Sprintf("the build ended with exit code %d and said nothing (%s)", t.ExitCode, t.Reason)
		}
	}
	return cmp.Or(p.Status.Message, p.Status.Reason, "the build failed, and why is not known")
}

// endOf is when a build ended.
func endOf(p *corev1.Pod) time.Time {
	for i := range p.Status.ContainerStatuses {
		if t := p.Status.ContainerStatuses[i].State.Terminated; t != nil && !t.FinishedAt.IsZero() {
			return t.FinishedAt.Time
		}
	}
	latest := p.CreationTimestamp.Time
	for _, c := range p.Status.Conditions {
		if c.LastTransitionTime.After(latest) {
			latest = c.LastTransitionTime.Time
		}
	}
	return latest
}

// boundAt is when a build was given its node.
func boundAt(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return p.CreationTimestamp.Time
}
