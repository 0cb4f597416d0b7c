package node

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/internal/room"
)

// pressed reports whether the disk of the node is almost full.
func (n *Node) pressed() bool {
	space, err := room.Look(n.config.DataDir)
	return err == nil && space.Low()
}

// diskPressure is the condition that makes upstream's node controller taint the node, so
// that no pod is placed on it. A disk that cannot be measured has none.
func (n *Node) diskPressure(condition func(corev1.NodeConditionType, corev1.ConditionStatus, string, string) corev1.NodeCondition) corev1.NodeCondition {
	if space, err := room.Look(n.config.DataDir); err == nil && space.Low() {
		return condition(corev1.NodeDiskPressure, corev1.ConditionTrue, "KubeletHasDiskPressure", space.Words())
	}
	return condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "the disk has room")
}
