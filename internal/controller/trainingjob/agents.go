package trainingjob

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// brought are the drivers of volumes that agents bring to nodes.
var brought = []string{v1alpha1.CodeDriver, v1alpha1.EnvironmentDriver, v1alpha1.DataDriver, v1alpha1.StageDriver}

// besideAgents has a pod with a volume that agents bring run where there is one: on
// nodes with these labels. A node without would try to mount the volume for ever.
func besideAgents(labels map[string]string, pod *corev1.PodSpec) {
	needed := slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.CSI != nil && slices.Contains(brought, v.CSI.Driver) })
	if !needed || len(labels) == 0 {
		return
	}
	all := map[string]string{}
	for _, from := range []map[string]string{labels, pod.NodeSelector} { // what somebody says of the pod counts
		for key, value := range from {
			all[key] = value
		}
	}
	pod.NodeSelector = all
}
