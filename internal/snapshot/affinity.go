package snapshot

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/internal/scheduling"
)

// preferences are the nodes that a pod likes better.
func preferences(spec *corev1.PodSpec) []scheduling.Preference {
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return nil
	}
	var out []scheduling.Preference
	for _, p := range spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		term := append(expressions(p.Preference.MatchExpressions, false), expressions(p.Preference.MatchFields, true)...)
		out = append(out, scheduling.Preference{Weight: p.Weight, Term: term})
	}
	return out
}
