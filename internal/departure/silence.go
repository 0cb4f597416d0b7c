package departure

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Silence is that a node does not answer, or says that it is not ready.
type Silence struct {
	// Since is when that was found out.
	Since time.Time
	// Unknown is true for a node that does not answer: what it runs may go on.
	Unknown bool
	// Message is why it is not ready, in its own words.
	Message string
}

// Silent is the silence of a node; false for one that is ready, and for one that has
// never said anything.
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

// Words say it of the node, as in "has not answered since 09:39".
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
