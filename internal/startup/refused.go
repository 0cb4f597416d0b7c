package startup

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// refusals are a kubelet's reasons for a pod that it did not take, beside those that
// begin with outOf. They are those of its
// admission (package lifecycle and the managers below cm), of its evictions and
// of its shutdown.
var refusals = []string{
	"UnexpectedAdmissionError", "EmptyPodSharedPoolError", "TopologyAffinityError", "SMTAlignmentError",
	"NodeAffinity", "NodeName", "NodePorts", "NodeUnschedulable", "TaintToleration", "VolumeAttachmentLimitExceeded",
	"Preempting", "Evicted", "NodeShutdown", "Terminated",
	"InvalidNodeInfo", "UnknownReason", "UnexpectedPredicateFailureType",
	"PodOSSelectorNodeLabelDoesNotMatch", "PodOSNotSupported", "PodLevelResourcesNotSupported", "PodFeatureUnsupported",
	"SupplementalGroupsPolicyNotSupported", "InitContainerRestartPolicyForbidden", "AppArmor", "SysctlForbidden",
}

// outOf begins a kubelet's reason for lack of a resource: OutOfcpu,
// OutOfnvidia.com/gpu.
const outOf = "OutOf"

// Refused reports whether a kubelet did not take a pod, or evicted it before any container ran.
func Refused(p *corev1.Pod) bool {
	known := strings.HasPrefix(p.Status.Reason, outOf) || slices.Contains(refusals, p.Status.Reason)
	return p.Status.Phase == corev1.PodFailed && known && !Ran(p)
}

// Ran reports whether a container of the pod has ever started.
func Ran(p *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool {
		ended := func(s corev1.ContainerState) bool { return s.Terminated != nil && !s.Terminated.StartedAt.IsZero() }
		return c.State.Running != nil || ended(c.State) || ended(c.LastTerminationState)
	})
}
