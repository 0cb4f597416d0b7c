package departure

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Silence describes a node that does not answer, or reports that it is not ready.
type Silence struct {
	// Since is the time at which Kubernetes noticed that.
	Since time.Time
	// Unknown is true for a node that does not answer: its pods may go on running.
	Unknown bool
	// Message is the node's reason for not being ready.
	Message string
}

// Silent is the silence of a node; false for one that is ready, and for one that has never
// reported.
func Silent(n *corev1.Node) (Silence, bool) {
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		if c.Type != corev1.NodeReady || c.Status == corev1.ConditionTrue {
			continue
		}
		return Silence{Since: c.LastTransitionTime.Time, Unknown: c.Status == corev1.ConditionUnknown, Message: c.Message}, true
	}
	return Silence{}, false
}

// Words returns a phrase about the node, such as "has not answered since 09:39".
func (s Silence) Words(clock func(time.Time) string) string {
	if s.Unknown {
		return "has not answered since " + clock(s.Since)
	}
	text := "is not ready since " + clock(s.Since)
	if s.Message != "" {
		text += " (" + s.Message + ")"
	}
	return text
}
