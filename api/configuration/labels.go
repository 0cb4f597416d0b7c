package configuration

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ownLabels are what Muster says of the machine itself.
var ownLabels = []string{"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "muster.dev/tier", "nvidia.com/gpu.product"}

// checkLabels finds the first label, by key, that cannot be.
func checkLabels(labels map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			return fmt.Errorf("nodeLabels: %q is no key of a label: %s", key, strings.Join(problems, "; "))
		}
		if slices.Contains(ownLabels, key) {
			return fmt.Errorf("nodeLabels: %s is set by Muster itself; remove it", key)
		}
		if problems := validation.IsValidLabelValue(labels[key]); len(problems) > 0 {
			return fmt.Errorf("nodeLabels: %s: %q is no value of a label: %s", key, labels[key], strings.Join(problems, "; "))
		}
	}
	return nil
}
