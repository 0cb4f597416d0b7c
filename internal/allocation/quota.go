package allocation

import (
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/muster-dev/muster/internal/scheduling"
)

// Counts reports whether the API server counts Muster's claims for a resource of a quota.
func Counts(name corev1.ResourceName) bool { return scheduling.OfClaims(string(name)) }

// Usage is the amount of a quota's resource that the claims use, as the API server counts it
// (k8s.io/kubernetes pkg/quota/v1/evaluator/core/resource_claims.go).
func Usage(claims []*resourcev1.ResourceClaim, name corev1.ResourceName) int64 {
	if string(name) == scheduling.QuotaClaims {
		return int64(len(claims))
	}
	var sum int64
	for _, c := range claims {
		for i := range c.Spec.Devices.Requests {
			sum += usageOf(&c.Spec.Devices.Requests[i])
		}
	}
	return sum
}

// usageOf is the number of devices of Muster's class that a request counts for: of alternatives the
// largest.
func usageOf(r *resourcev1.DeviceRequest) int64 {
	if r.Exactly != nil {
		return most(r.Exactly.DeviceClassName, r.Exactly.AllocationMode, r.Exactly.Count)
	}
	var largest int64
	for i := range r.FirstAvailable {
		s := &r.FirstAvailable[i]
		largest = max(largest, most(s.DeviceClassName, s.AllocationMode, s.Count))
	}
	return largest
}

func most(class string, mode resourcev1.DeviceAllocationMode, count int64) int64 {
	switch {
	case class != scheduling.QuotaClass:
		return 0
	case mode == resourcev1.DeviceAllocationModeAll:
		return resourcev1.AllocationResultsMaxSize
	}
	return count
}
