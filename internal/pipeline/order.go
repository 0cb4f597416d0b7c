package pipeline

import (
	"cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// Order compares two runs by when they began, the earlier one first. Their times
// are of whole seconds: within one, their numbers tell.
func Order(a, b *v1alpha1.PipelineRun) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Spec.Number, b.Spec.Number), cmp.Compare(a.Name, b.Name))
}
