// Package limits reports whether this machine keeps the memory and CPU limits of containers. The
// doctor, refused pods and the documents have their wording from here. That depends on control
// groups alone, and not on the tier.
//
// It must not know the making of control groups.
package limits

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/internal/node/shim/contract"
)

// Documented is the text of docs/tiers.md.
const Documented = "Memory and CPU limits are kept by control groups, in both tiers, wherever Muster can make these: as root, outside of containers that show them read-only. Elsewhere a pod with a limit is refused."

// Kept says whether limits are kept. The zero value: they are.
type Kept struct {
	// Not is the reason why they are not.
	Not string
}

// Of takes the answer of process.LimitsAvailable.
func Of(able bool, reason string) Kept {
	if able {
		return Kept{}
	}
	if reason == "" {
		reason = "control groups cannot be made"
	}
	return Kept{Not: reason}
}

// String is the doctor's line.
func (k Kept) String() string {
	if k.Not == "" {
		return "memory and CPU limits are kept by control groups, in both tiers"
	}
	return "memory and CPU limits cannot be kept: " + k.Not
}

// Advice is the doctor's advice where they are not kept.
func (k Kept) Advice() string {
	if k.Not == "" {
		return ""
	}
	return "pods with limits are refused: leave limits out and keep requests, or run muster as root where control groups can be made"
}

// Refuses is the reason for which a pod with a limit is refused; empty: it is not. The kind is memory or CPU.
func (k Kept) Refuses(kind string) string {
	if k.Not == "" {
		return ""
	}
	return fmt.Sprintf("this node cannot keep a %s limit: %s; leave the limit out and keep the request, or run muster as root where control groups can be made", kind, k.Not)
}

// For are the limits of a container; nil: none are kept.
func (k Kept) For(ctr *corev1.Container) *contract.Limits {
	if k.Not != "" {
		return nil
	}
	return &contract.Limits{
		CPURequestMillis: ctr.Resources.Requests.Cpu().MilliValue(),
		MemoryBytes:      ctr.Resources.Limits.Memory().Value(),
		CPUMillis:        ctr.Resources.Limits.Cpu().MilliValue(),
	}
}
