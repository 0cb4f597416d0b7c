package scaling

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/inventory"
)

// ByResource has, as [Options.AskBy], GPUs be asked for as an extended resource,
// whatever nodes say.
const ByResource = "resource"

// way is how placeholders ask for GPUs: as so many of a resource, or, where there is
// a class, by a claim for so many devices of it.
type way struct {
	resource corev1.ResourceName
	class    string
}

// ways says how GPUs are asked for; false: no autoscaler would understand it.
func ways(askBy string, resource corev1.ResourceName, nodes []corev1.Node, slices []resourcev1.ResourceSlice) (way, bool) {
	switch {
	case askBy == ByResource:
		return way{resource: resource}, true
	case askBy != "":
		return way{class: askBy}, true
	}
	return way{resource: resource}, !namedAlone(resource, nodes, slices)
}

// namedAlone reports whether drivers name GPUs and no node counts any: a node that
// is made will have none of the resource either.
func namedAlone(resource corev1.ResourceName, nodes []corev1.Node, slices []resourcev1.ResourceSlice) bool {
	for i := range nodes {
		if q := nodes[i].Status.Allocatable[resource]; q.Sign() > 0 {
			return false
		}
	}
	for i := range slices {
		if strings.HasPrefix(slices[i].Spec.Driver, "gpu.") && len(slices[i].Spec.Devices) > 0 {
			return true
		}
	}
	return false
}

// refusedText is what is said of a gang for which no nodes are asked.
func refusedText(resource corev1.ResourceName) string {
	return fmt.Sprintf("no nodes are asked for: on this cluster drivers (DRA) name GPUs and no node counts %s, so an autoscaler would not know what to make;"+
		" an administrator names a DeviceClass for it (muster install --set autoscaler.askBy=gpu.example.com), or has it asked by the resource all the same (autoscaler.askBy=%s)", resource, ByResource)
}

// wantsGPUs reports whether any member has GPUs.
func wantsGPUs(g *v1alpha1.Gang) bool {
	for i := range g.Spec.Roles {
		if q := g.Spec.Roles[i].GPUs; q != nil && q.Sign() > 0 {
			return true
		}
	}
	return false
}

// claimName is what a placeholder calls its claim.
const claimName = inventory.Request

// claimTemplate is what claims of placeholders are made from that ask for so many
// devices of a class. Nobody ever allocates one: autoscalers find out which nodes
// could. That Muster alone gives devices out keeps none of them from counting.
func claimTemplate(namespace, class string, n int64) *resourcev1.ResourceClaimTemplate {
	return &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%d-of-%s", n, class), Labels: map[string]string{v1alpha1.LabelPlaceholder: "all"},
		},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: claimName, Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: n,
				Tolerations: []resourcev1.DeviceToleration{{Key: inventory.TaintOwned, Operator: resourcev1.DeviceTolerationOpExists}},
			},
		}}}}},
	}
}
