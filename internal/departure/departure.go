package departure

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Departure is that a node is about to go.
type Departure struct {
	// Why says it of the node, as in "is being drained".
	Why string
	// Notice is for how long members may go on once they were told to stop,
	// wherever they are; 0: as long as each pod says.
	Notice time.Duration
	// Within is the most that a member on the node itself has, because the
	// machine is gone after that; 0: no such bound.
	Within time.Duration
	// Silent is true where neither a cordon nor a taint keeps off what is new.
	Silent bool
}

// Sign is what tells that a node is about to go.
type Sign struct {
	// Taint is the key of a taint. Empty: the sign is a condition.
	Taint string
	// Condition is the type of a node condition that is true, Reason the reason
	// that it has; empty: any.
	Condition, Reason string
	// Within is how long the machine is there for certain; 0: until its pods are
	// gone.
	Within time.Duration
}

// Signs are those that are heeded.
type Signs []Sign

// short is the notice that every cloud gives at least, less what telling takes:
// a preempted VM of Compute Engine and a spot VM of Azure have 30 s.
const short = 25 * time.Second

// Known are the signs of the autoscalers and clouds that are known. Where they
// are from:
//
//   - ToBeDeletedByClusterAutoscaler: cluster-autoscaler, utils/taints. It waits
//     for the pods that it evicts.
//   - karpenter.sh/disrupted: karpenter, pkg/apis/v1/taints.go, from version 1
//     on; karpenter.sh/disruption before. Pods are evicted, and waited for.
//   - aws-node-termination-handler/...: docs/ of that project, TAINT_NODE. A spot
//     instance has 2 minutes from the notice on.
//   - cloud.google.com/impending-node-termination: GKE's handler of VM
//     terminations, 30 s for a preempted VM.
//   - remediator...azure.com/unschedulable: AKS, node auto-drain: redeployed,
//     preempted and terminated VMs, 30 s for a preempted one.
//   - VMEventScheduled: the condition that AKS's node problem detector sets for
//     the same events.
//   - node.kubernetes.io/out-of-service: Kubernetes, set by people for a machine
//     that is off; its pods are ended by the pod garbage collector.
//   - DeletionCandidateOfClusterAutoscaler is none: it may be taken back.
func Known() Signs {
	return Signs{
		{Taint: "ToBeDeletedByClusterAutoscaler"},
		{Taint: "karpenter.sh/disrupted"},
		{Taint: "karpenter.sh/disruption"},
		{Taint: "aws-node-termination-handler/spot-itn", Within: 110 * time.Second},
		{Taint: "aws-node-termination-handler/asg-lifecycle-termination"},
		{Taint: "aws-node-termination-handler/scheduled-maintenance"},
		{Taint: "cloud.google.com/impending-node-termination", Within: short},
		{Taint: "remediator.kubernetes.azure.com/unschedulable", Within: short},
		{Taint: "remediator.aks.microsoft.com/unschedulable", Within: short},
		{Condition: "VMEventScheduled", Reason: "PreemptScheduled", Within: short},
		{Condition: "VMEventScheduled", Reason: "TerminateScheduled"},
		{Taint: corev1.TaintNodeOutOfService, Within: time.Second},
	}
}

// conditionPrefix begins a sign that is a condition, as text.
const conditionPrefix = "condition:"

// Parse reads a sign: KEY for a taint, condition:TYPE or condition:TYPE/REASON
// for a condition, either with =DURATION for how long the machine is there for
// certain.
func Parse(text string) (Sign, error) {
	name, within, timed := strings.Cut(text, "=")
	var out Sign
	if timed {
		d, err := time.ParseDuration(within)
		if err != nil || d < time.Second {
			return out, fmt.Errorf("the sign %q: %q is no duration of a second or more, such as 25s", text, within)
		}
		out.Within = d
	}
	if condition, is := strings.CutPrefix(name, conditionPrefix); is {
		out.Condition, out.Reason, _ = strings.Cut(condition, "/")
	} else {
		out.Taint = name
	}
	if out.Condition+out.Taint == "" || strings.ContainsAny(name, " \t,:") && out.Condition == "" {
		return out, fmt.Errorf("the sign %q: give the key of a taint, or condition:TYPE/REASON, either with =DURATION", text)
	}
	return out, nil
}

// String is what Parse reads.
func (s Sign) String() string {
	text := s.Taint
	if s.Condition != "" {
		text = conditionPrefix + s.Condition
		if s.Reason != "" {
			text += "/" + s.Reason
		}
	}
	if s.Within > 0 {
		text += "=" + s.Within.String()
	}
	return text
}

// Of is the departure of a node, false if it stays. A person's order comes
// first, then the sign that leaves the least time.
func (s Signs) Of(n *corev1.Node) (Departure, bool) {
	var out Departure
	found := false
	for i := range s {
		if !s[i].on(n) {
			continue
		}
		d := Departure{Why: s[i].words(), Within: s[i].Within}
		if !found || d.Within > 0 && (out.Within == 0 || d.Within < out.Within) {
			out, found = d, true
		}
	}
	order, ordered := Ordered(n)
	if ordered {
		order.Within = out.Within
		out, found = order, true
	}
	out.Silent = found && !ordered && !n.Spec.Unschedulable && !slices.ContainsFunc(s, func(sign Sign) bool { return sign.Taint != "" && sign.on(n) })
	return out, found
}

// Ordered is a person's order to drain a node, false if there is none.
func Ordered(n *corev1.Node) (Departure, bool) {
	at := slices.IndexFunc(n.Spec.Taints, isOrder)
	if at < 0 {
		return Departure{}, false
	}
	d := Departure{Why: "is being drained (muster node drain)"}
	if notice, err := time.ParseDuration(n.Spec.Taints[at].Value); err == nil && notice > 0 {
		d.Notice = notice
	}
	return d, true
}

// Order sets the order to drain a node, in place of another one; a notice of 0
// leaves each pod its own. The node is cordoned with it.
func Order(n *corev1.Node, notice time.Duration) {
	Withdraw(n)
	taint := corev1.Taint{Key: v1alpha1.TaintDrain, Effect: corev1.TaintEffectNoSchedule}
	if notice > 0 {
		taint.Value = notice.String()
	}
	n.Spec.Taints, n.Spec.Unschedulable = append(n.Spec.Taints, taint), true
}

// Withdraw takes an order back, and the cordon with it. Without an order it does
// nothing.
func Withdraw(n *corev1.Node) {
	if _, given := Ordered(n); given {
		n.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints), isOrder)
		n.Spec.Unschedulable = false
	}
}

func isOrder(t corev1.Taint) bool {
	return t.Key == v1alpha1.TaintDrain && t.Effect == corev1.TaintEffectNoSchedule
}

// on reports that a node shows the sign. A taint that merely prefers others
// says nothing yet.
func (s Sign) on(n *corev1.Node) bool {
	if s.Condition != "" {
		return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return string(c.Type) == s.Condition && c.Status == corev1.ConditionTrue && (s.Reason == "" || c.Reason == s.Reason)
		})
	}
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == s.Taint && t.Effect != corev1.TaintEffectPreferNoSchedule
	})
}

// words are what the sign says of a node.
func (s Sign) words() string {
	switch {
	case s.Taint == corev1.TaintNodeOutOfService:
		return "is out of service"
	case s.Condition != "":
		return "is about to go: its condition " + s.Condition + " is true (" + s.Reason + ")"
	case s.Within > 0:
		return "is being reclaimed: it has the taint " + s.Taint
	}
	return "is being drained: it has the taint " + s.Taint
}
