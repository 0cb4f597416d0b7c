package inventory

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Request is the name of the one request of a claim.
const Request = "gpus"

// Claim is what a pod is given, before it is known of which devices: so many
// GPUs, or a part of one. It is the pod's, and goes with it.
func Claim(pod *corev1.Pod, name string, gpus int, share *v1alpha1.GPUShare) *resourcev1.ResourceClaim {
	yes := true
	request := &resourcev1.ExactDeviceRequest{DeviceClassName: Driver, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: int64(gpus)}
	if share != nil {
		request.Capacity = &resourcev1.CapacityRequirements{Requests: amounts(int64(share.Milli), share.MemoryMiB)}
	}
	var annotations map[string]string
	if Alone(&pod.Spec) {
		annotations = map[string]string{v1alpha1.AnnotationGPUsAlone: "true"}
	}
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: name, Annotations: annotations,
			Labels:          map[string]string{v1alpha1.LabelGang: pod.Labels[v1alpha1.LabelGang]},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &yes}},
			// What is allocated is taken back before the claim goes.
			Finalizers: []string{resourcev1.Finalizer},
		},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: Request, Exactly: request}}}},
	}
}

// amounts are a part of a GPU as capacity; memory that is not known is left out.
func amounts(milli, memoryMiB int64) map[resourcev1.QualifiedName]resource.Quantity {
	out := map[resourcev1.QualifiedName]resource.Quantity{CapacityCompute: *resource.NewQuantity(milli, resource.DecimalSI)}
	if memoryMiB > 0 {
		out[CapacityMemory] = *resource.NewQuantity(memoryMiB*mib, resource.BinarySI)
	}
	return out
}

// Allocation gives devices of a node, the part of the one or all of each. It
// fails for a part of what is not shared.
func Allocation(node string, gpus []GPU, share *v1alpha1.GPUShare) (*resourcev1.AllocationResult, error) {
	out := &resourcev1.AllocationResult{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}}
	for i := range gpus {
		g := &gpus[i]
		result := resourcev1.DeviceRequestAllocationResult{Request: Request, Driver: g.Driver, Pool: g.Pool, Device: g.Name}
		switch {
		case g.Shared:
			id, milli, memory := uuid.NewUUID(), int64(wholeMilli), g.MemoryMiB
			if share != nil {
				milli, memory = int64(share.Milli), share.MemoryMiB
			}
			result.ShareID, result.ConsumedCapacity = &id, amounts(milli, memory)
		case share != nil:
			return nil, fmt.Errorf("giving a part of GPU %s of node %s: its driver %s gives whole ones only", g.ID(), node, g.Driver)
		}
		out.Devices.Results = append(out.Devices.Results, result)
	}
	return out, nil
}

// Part is how much of its device a result gives: thousandths, and MiB of its
// memory, 0 where that is not known. A device that is not shared is given whole.
func Part(r *resourcev1.DeviceRequestAllocationResult) (milli, memoryMiB int64) {
	compute, ok := r.ConsumedCapacity[CapacityCompute]
	if !ok {
		return wholeMilli, 0
	}
	memory := r.ConsumedCapacity[CapacityMemory]
	return compute.Value(), memory.Value() / mib
}

// Reserved reports that a claim is allocated, and for the pod.
func Reserved(c *resourcev1.ResourceClaim, pod types.UID) bool {
	if c.Status.Allocation == nil {
		return false
	}
	for _, r := range c.Status.ReservedFor {
		if r.UID == pod {
			return true
		}
	}
	return false
}
