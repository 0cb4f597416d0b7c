package allocation

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Device names a device on the cluster.
type Device struct{ Driver, Pool, Name string }

// DeviceOf is the device of a result.
func DeviceOf(r *resourcev1.DeviceRequestAllocationResult) Device {
	return Device{r.Driver, r.Pool, r.Device}
}

// String is driver/pool/device.
func (d Device) String() string { return d.Driver + "/" + d.Pool + "/" + d.Name }

// Results are the results of a claim that reserve a device; none if the claim is not
// allocated.
func Results(c *resourcev1.ResourceClaim) []*resourcev1.DeviceRequestAllocationResult {
	if c.Status.Allocation == nil {
		return nil
	}
	var out []*resourcev1.DeviceRequestAllocationResult
	for i := range c.Status.Allocation.Devices.Results {
		r := &c.Status.Allocation.Devices.Results[i]
		if r.AdminAccess == nil || !*r.AdminAccess {
			out = append(out, r)
		}
	}
	return out
}

// Owner is the UID of the pod that controls a claim; empty if none does.
func Owner(c *resourcev1.ResourceClaim) types.UID {
	owner := metav1.GetControllerOfNoCopy(c)
	if owner == nil || owner.Kind != "Pod" || owner.APIVersion != "v1" {
		return ""
	}
	return owner.UID
}

// Own reports whether Muster allocated a claim: its owner is a pod that Muster schedules,
// and it is reserved for that pod alone. Labels are no proof: the template of a tenant
// may set them. Other schedulers reserve a claim for pods of their own.
func Own(c *resourcev1.ResourceClaim, owner *corev1.Pod, schedules func(*corev1.Pod) bool) bool {
	return owner != nil && owner.UID == Owner(c) && schedules(owner) && len(c.Status.ReservedFor) > 0 && reservedFor(c, owner.UID)
}

// reservedFor reports whether a claim is reserved for a pod alone.
func reservedFor(c *resourcev1.ResourceClaim, pod types.UID) bool {
	return !slices.ContainsFunc(c.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID != pod })
}
