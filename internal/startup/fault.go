package startup

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Cause is the kind of a fault.
type Cause int

// The causes.
const (
	// Slow is an error that the node expects to pass.
	Slow Cause = iota
	// Configuration is an object, or a key of one, that the pod names and that does not exist.
	Configuration
	// Volume is a volume that cannot be mounted.
	Volume
	// Image is an image that cannot be pulled.
	Image
	// Node is the network, the runtime or a device of the node, or a volume that is still attached to
	// another node.
	Node
	// Beside is a container that runs beside the others and ends again and again.
	Beside
	// Hopeless is an image that the node does not pull.
	Hopeless
	// Never is an image with an invalid name: it is invalid on every node.
	Never
)

// The patience with faults. A kubelet tries a mount five times, and a pull three
// times, within 50 seconds.
const (
	short = 50 * time.Second
	long  = 3 * time.Minute
)

// Patience is the time for which an attempt goes on with a fault; limit is the longest time for a
// start without a fault.
func (c Cause) Patience(limit time.Duration) time.Duration {
	switch c {
	case Configuration, Volume, Image:
		return min(limit, short)
	case Node, Beside:
		return min(limit, long)
	case Hopeless, Never:
		return 0
	}
	return limit
}

// Forever is an unlimited number of attempts.
const Forever = math.MaxInt32

// Attempts is the number of attempts in a row that may end by a fault before the gang fails. A
// missing object may be created, and a volume repaired: such attempts are unlimited.
func (c Cause) Attempts() int32 {
	switch c {
	case Configuration, Volume:
		return Forever
	case Image, Node:
		return 6
	case Never:
		return 1
	}
	return 3
}

// Elsewhere reports whether another node may succeed.
func (c Cause) Elsewhere() bool { return c != Configuration && c != Never }

// The back-off after attempts that ended by a fault. Each holds its GPUs for the
// patience; the longest back-off makes that less than a tenth of the time.
const (
	firstBackoff = 15 * time.Second
	lastBackoff  = 10 * time.Minute
)

// Backoff is the delay after the nth attempt in a row that ended by a fault.
func (c Cause) Backoff(nth int32) time.Duration {
	d := firstBackoff
	for ; nth > 1 && d < lastBackoff; nth-- {
		d *= 2
	}
	return min(d, lastBackoff)
}

// Fault is an error that keeps a pod from starting.
type Fault struct {
	Cause Cause
	// Words are the node's: the reason and the message.
	Words string
	// Since is when the node first reported it; zero where it does not say.
	Since time.Time
}

// causes are the reasons of a waiting container by which a node reports a fault.
// Those but the first are a kubelet's, of its packages kuberuntime, container and
// images.
var causes = map[string]Cause{
	"ContainerCreating":          Slow, // with a message: by Muster's node alone
	"CreateContainerConfigError": Configuration,
	"CreateContainerError":       Node,
	"RunContainerError":          Node,
	"CreatePodSandboxError":      Node,
	"ErrImagePull":               Image,
	"ImagePullBackOff":           Image,
	"RegistryUnavailable":        Image,
	"ImageInspectError":          Image,
	"SignatureValidationFailed":  Image,
	"CrashLoopBackOff":           Beside,
	"ErrImageNeverPull":          Hopeless,
	"InvalidImageName":           Never,
}

// warnings are the reasons of events by which a kubelet reports a fault that no
// status of a container shows. They count until the pod's sandbox is there, which
// is made after the last volume is mounted.
var warnings = map[string]Cause{
	"FailedMount":                   Volume,
	"FailedMapVolume":               Volume,
	"FailedAttachVolume":            Node,
	"FailedCreatePodSandBox":        Node,
	"FailedPrepareDynamicResources": Node,
	"NetworkNotReady":               Node,
}

// absent matches a kubelet's messages in FailedMount about an object that does not exist, and about
// a key that it does not have.
var absent = []string{" not found", "references non-existent "}

// Of is the fault that keeps a pod from starting; false if there is none. events
// are those of the pod.
func Of(p *corev1.Pod, events []corev1.Event) (Fault, bool) {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		w := c.State.Waiting
		if w == nil {
			continue
		}
		cause, known := causes[w.Reason]
		if !known || cause == Slow && w.Message == "" {
			continue
		}
		words := strings.TrimSpace(w.Message)
		if last := c.LastTerminationState.Terminated; cause == Beside && last != nil {
			words = fmt.Sprintf("container %s: %s", c.Name, cmp.Or(strings.TrimSpace(last.Message), fmt.Sprintf("exit code %d", last.ExitCode)))
		}
		return Fault{Cause: cause, Words: strings.TrimSuffix(w.Reason+": "+words, ": ")}, true
	}
	if prepared(p) {
		return Fault{}, false
	}
	last := Last(events)
	if last == nil {
		return Fault{}, false
	}
	cause, known := warnings[last.Reason]
	if !known {
		return Fault{}, false
	}
	if cause == Volume && slices.ContainsFunc(absent, func(part string) bool { return strings.Contains(last.Message, part) }) {
		cause = Configuration
	}
	return Fault{Cause: cause, Words: said(last), Since: first(last)}, true
}

// prepared reports whether a pod has its volumes and its network.
func prepared(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue
	})
}

// Last is the warning that was repeated last; nil if there is none.
func Last(events []corev1.Event) *corev1.Event {
	var last *corev1.Event
	for i := range events {
		if e := &events[i]; e.Type == corev1.EventTypeWarning && (last == nil || !seen(e).Before(seen(last))) {
			last = e
		}
	}
	return last
}

// Words returns the reason why a pod has not started, in the words of its node if it has any.
func Words(p *corev1.Pod, events []corev1.Event) string {
	if f, is := Of(p, events); is {
		return f.Words
	}
	if last := Last(events); last != nil {
		return said(last)
	}
	for _, c := range p.Status.InitContainerStatuses {
		if RunsBeside(p, c.Name) && c.State.Running != nil && (c.Started == nil || !*c.Started) {
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

// RunsBeside reports whether an init container runs as long as the pod does.
func RunsBeside(p *corev1.Pod, name string) bool {
	return slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	})
}

// said are an event's reason and message. The kubelet's quotes around the name of a
// volume stay.
func said(e *corev1.Event) string {
	return e.Reason + ": " + strings.TrimSpace(e.Message)
}

// seen is the time at which an event last happened, and first the time at which it first did.
func seen(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	}
	return e.EventTime.Time
}

func first(e *corev1.Event) time.Time {
	if !e.FirstTimestamp.IsZero() {
		return e.FirstTimestamp.Time
	}
	return cmp.Or(e.EventTime.Time, e.CreationTimestamp.Time)
}
