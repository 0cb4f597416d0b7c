package trainingjob

import (
	"maps"
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

// architectures are those of nodes (kubernetes.io/arch) by what Python calls them
// (sysconfig.get_platform).
var architectures = map[string]string{
	"linux-x86_64": "amd64", "linux-aarch64": "arm64", "linux-ppc64le": "ppc64le", "linux-s390x": "s390x", "linux-riscv64": "riscv64",
}

// onArchitecture has a pod run where its environment can be used: what is compiled runs
// on no other processor, and says so in words that nobody understands.
func onArchitecture(architecture string, pod *corev1.PodSpec) {
	if architecture == "" || pod.NodeSelector[corev1.LabelArchStable] != "" {
		return
	}
	all := map[string]string{corev1.LabelArchStable: architecture}
	maps.Copy(all, pod.NodeSelector)
	pod.NodeSelector = all
}
