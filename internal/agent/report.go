package agent

import (
	"context"
	"fmt"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	resourcev1apply "k8s.io/client-go/applyconfigurations/resource/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/inventory"
	"github.com/muster-dev/muster/internal/node/gpu"
)

// reportWithin bounds what the kubelet waits for besides what it needs.
const reportWithin = 3 * time.Second

// report says in the claim's status, once, whether the part of a GPU that it
// has is enforced. Whole GPUs have nothing to enforce.
func (d *driver) report(ctx context.Context, claim *resourcev1.ResourceClaim, results []resourcev1.DeviceRequestAllocationResult, r record, devices []gpu.Device) error {
	if len(results) != 1 || r.Parts[0].Milli >= wholeMilli || len(claim.Status.Devices) > 0 {
		return nil
	}
	given, ok := device(devices, results[0].Device)
	if !ok {
		return nil
	}
	e := enforcement(given)
	status, reason := metav1.ConditionFalse, "NotEnforced"
	if e.Enforced {
		status, reason = metav1.ConditionTrue, "Enforced"
	}
	one := resourcev1apply.AllocatedDeviceStatus().WithDriver(results[0].Driver).WithPool(results[0].Pool).WithDevice(results[0].Device).
		WithConditions(metav1apply.Condition().WithType(v1alpha1.ConditionGPUShare).WithStatus(status).WithReason(reason).
			WithMessage(words(r.Parts[0]) + ", " + e.String()).WithLastTransitionTime(metav1.Now()))
	if id := results[0].ShareID; id != nil {
		one = one.WithShareID(string(*id))
	}
	apply := resourcev1apply.ResourceClaim(claim.Name, claim.Namespace).WithUID(claim.UID).WithStatus(resourcev1apply.ResourceClaimStatus().WithDevices(one))
	ctx, cancel := context.WithTimeout(ctx, reportWithin)
	defer cancel()
	_, err := d.set.ResourceV1().ResourceClaims(claim.Namespace).ApplyStatus(ctx, apply, metav1.ApplyOptions{FieldManager: inventory.Driver, Force: true})
	return err
}

// enforcement says whether a part of a GPU is enforced in a container of a pod:
// it never is, so far.
func enforcement(d gpu.Device) gpu.Enforcement {
	if d.Simulated {
		return gpu.Enforcement{Why: "the GPU is simulated"}
	}
	return gpu.Enforcement{Why: "containers of pods have an IPC namespace of their own, which MPS does not cross"}
}

// words are a part of a GPU as people read it.
func words(p part) string {
	if p.MemoryMiB == 0 {
		return fmt.Sprintf("%dm", p.Milli)
	}
	return fmt.Sprintf("%dm (%d MiB)", p.Milli, p.MemoryMiB)
}
