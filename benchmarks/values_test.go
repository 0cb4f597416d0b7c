//go:build e2e

package benchmarks

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func quantity(s string) resource.Quantity { return resource.MustParse(s) }

// quantities makes a list of pairs of name and quantity.
func quantities(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = quantity(pairs[i+1])
	}
	return list
}

func sortedMedian(values []float64) float64 { return median(slices.Sorted(slices.Values(values))) }
