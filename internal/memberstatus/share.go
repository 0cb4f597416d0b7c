package memberstatus

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// ShareText joins the nodes' messages about the GPU shares of a role's members, each
// message once.
func ShareText(pods []*corev1.Pod, role string) string {
	var said []string
	for _, p := range pods {
		if p.Labels[v1alpha1.LabelRole] != role {
			continue
		}
		for _, c := range p.Status.Conditions {
			if c.Type == v1alpha1.ConditionGPUShare && c.Message != "" && !slices.Contains(said, c.Message) {
				said = append(said, c.Message)
			}
		}
	}
	slices.Sort(said)
	return strings.Join(said, "; ")
}
