// Package manifest reads Queue objects as the specs that trees of queues are
// built from, and writes amounts back as quantities. It decides nothing.
package manifest

import (
	"strings"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/scheduling/queue"
)

// Spec reads an object. Times are in nanoseconds. What the object leaves out
// has the value that its field documents; amounts that are too large are left
// for queue.Build to report.
func Spec(object *v1alpha1.Queue) queue.Spec {
	in := &object.Spec
	out := queue.Spec{
		Name: object.Name, Parent: in.Parent, Weight: 1,
		Guaranteed: Amounts(in.Guaranteed), Limit: Amounts(in.Limit), LendingLimit: Amounts(in.LendingLimit),
		NoBorrowing:    in.Borrowing == v1alpha1.BorrowingNever,
		NoUserFairness: in.UserFairness != nil && !*in.UserFairness,
		Stopped:        in.Stopped,
	}
	if in.Weight != nil {
		out.Weight = int64(*in.Weight)
	}
	if p := in.Preemption; p != nil {
		switch p.Reclaim {
		case v1alpha1.ReclaimAny:
			out.Reclaim = queue.ReclaimAny
		case v1alpha1.ReclaimLowerPriority:
			out.Reclaim = queue.ReclaimLowerPriority
		case v1alpha1.ReclaimNever:
			out.Reclaim = queue.ReclaimNever
		}
		if p.MinRunSeconds != nil {
			out.MinRunTime = *p.MinRunSeconds * 1e9
		}
	}
	return out
}

// Specs reads objects.
func Specs(objects []v1alpha1.Queue) []queue.Spec {
	out := make([]queue.Spec, len(objects))
	for i := range objects {
		out[i] = Spec(&objects[i])
	}
	return out
}

// Amounts reads amounts: memory in bytes, everything else in thousandths,
// rounded up.
func Amounts(in v1alpha1.ResourceAmounts) queue.Amounts {
	if len(in) == 0 {
		return nil
	}
	out := make(queue.Amounts, len(in))
	for name, quantity := range in {
		switch {
		case strings.EqualFold(name, queue.NameMemory):
			if out[name] = queue.MaxAmount + 1; quantity.CmpInt64(queue.MaxAmount) <= 0 {
				out[name] = quantity.Value()
			}
		case quantity.CmpInt64(queue.MaxAmount/1000) > 0:
			out[name] = queue.MaxAmount + 1
		case quantity.CmpInt64(-queue.MaxAmount/1000) < 0:
			out[name] = -queue.MaxAmount
		default:
			out[name] = quantity.MilliValue()
		}
	}
	return out
}

// Quantities writes the amounts of a vector that are not 0.
func Quantities(classes *queue.Classes, amounts func(queue.Class) int64) v1alpha1.ResourceAmounts {
	out := v1alpha1.ResourceAmounts{}
	for c := range queue.Class(classes.Len()) {
		amount := amounts(c)
		if amount == 0 {
			continue
		}
		quantity := out[""]
		if c == queue.Memory {
			quantity.Format = "BinarySI"
			quantity.Set(amount)
		} else {
			quantity.Format = "DecimalSI"
			quantity.SetMilli(amount)
		}
		out[classes.Name(c)] = quantity
	}
	return out
}

// Faults are the reasons of the condition Valid for the kinds of problem.
var Faults = map[queue.Fault]string{
	queue.FaultMissingParent: v1alpha1.QueueReasonMissingParent,
	queue.FaultCycle:         v1alpha1.QueueReasonCycle,
	queue.FaultGuarantee:     v1alpha1.QueueReasonOverGuaranteed,
	queue.FaultLimit:         v1alpha1.QueueReasonLimitBelowGuaranteed,
	queue.FaultModels:        v1alpha1.QueueReasonModelsAboveGPU,
	queue.FaultAmount:        v1alpha1.QueueReasonAmount,
	queue.FaultWeight:        v1alpha1.QueueReasonAmount,
}
