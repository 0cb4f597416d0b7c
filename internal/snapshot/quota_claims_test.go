package snapshot

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/inventory"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// A gang whose claims a quota on claims or on devices does not allow is not begun, and the quota is
// named; a smaller one is. Members that are placed and have no claims yet count as well.
func TestQuotasOnClaims(t *testing.T) {
	const devices, claims = "gpu.muster.dev.deviceclass.resource.k8s.io/devices", "count/resourceclaims.resource.k8s.io"
	for name, tt := range map[string]struct {
		resource string
		hard     string
		workers  int32
		gpus     string
		// there is a claim of others in the namespace, which the quota counts.
		there bool
		lone  bool
		plan  bool
		says  string
	}{
		"devices, one too many":    {resource: devices, hard: "1", workers: 2, gpus: "1", says: "2 GPUs, and quota q of namespace vision allows 1 GPU in all (" + devices + ")"},
		"devices, as many":         {resource: devices, hard: "2", workers: 2, gpus: "1", plan: true},
		"devices, two each":        {resource: devices, hard: "3", workers: 2, gpus: "2", says: "4 GPUs"},
		"devices, shares":          {resource: devices, hard: "1", workers: 2, gpus: "250m", says: "2 GPUs"},
		"implicit":                 {resource: "requests.deviceclass.resource.kubernetes.io/gpu.muster.dev", hard: "1", workers: 2, gpus: "1", says: "quota q"},
		"claims, one too many":     {resource: claims, hard: "1", workers: 2, gpus: "2", says: "2 claims of devices, and quota q of namespace vision allows 1 claim of devices in all (" + claims + ")"},
		"claims, as many":          {resource: claims, hard: "2", workers: 2, gpus: "2", plan: true},
		"claims, one is there":     {resource: claims, hard: "2", workers: 2, gpus: "1", there: true, says: "allows 2 claims of devices"},
		"devices, one is there":    {resource: devices, hard: "2", workers: 2, gpus: "1", there: true, says: "allows 2 GPUs"},
		"without GPUs":             {resource: claims, hard: "0", workers: 2, gpus: "0", plan: true},
		"devices of another":       {resource: "gpu.nvidia.com.deviceclass.resource.k8s.io/devices", hard: "0", workers: 2, gpus: "1", plan: true},
		"a lone pod, too many":     {resource: devices, hard: "1", workers: 2, gpus: "2", lone: true, says: "2 GPUs, and quota q"},
		"a lone pod that may":      {resource: devices, hard: "2", workers: 2, gpus: "2", lone: true, plan: true},
		"a lone pod, pods counted": {resource: "pods", hard: "1", gpus: "1", lone: true, plan: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 1)
			c.show(namedSlice("s", "n0", inventory.Driver, "A100", true, "u0", "u1", "u2", "u3"))
			node := testNode(0)
			node.Name, node.Annotations, node.Labels = "n0", nil, map[string]string{v1alpha1.LabelOwned: "true"}
			c.show(node)
			list := corev1.ResourceList{corev1.ResourceName(tt.resource): resource.MustParse(tt.hard)}
			used := corev1.ResourceList{corev1.ResourceName(tt.resource): resource.MustParse("0")}
			q := hard(used, list, nil)
			c.show(&q)
			if tt.there {
				claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "there", UID: "there"}}
				claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "a", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: inventory.Driver, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}}
				c.show(claim)
			}
			if tt.lone {
				c.show(testPod("lone", tt.gpus))
			} else {
				c.show(testGang("g", tt.workers, tt.gpus))
			}
			now := time.Unix(1_700_000_000, 0)
			c.loop.tell(t.Context(), now)
			result := c.loop.core.Decide(conversion.Instant(now))
			if planned := len(result.Plans) == 1; planned != tt.plan {
				t.Fatalf("planned: %t", planned)
			}
			if tt.plan {
				return
			}
			if text := c.loop.core.Reasons(conversion.Instant(now), "")[0].Reason.Render(Clock(now, time.UTC)); !strings.Contains(text, tt.says) {
				t.Errorf("it says %q, want %q in it", text, tt.says)
			}
		})
	}
}

// Members that are placed and have no claims yet count, and so does a lone pod that is bound.
func TestClaimsThatAreComing(t *testing.T) {
	c := newCluster(t, 1)
	c.show(namedSlice("s", "n0", inventory.Driver, "A100", true, "u0", "u1", "u2", "u3"))
	node := testNode(0)
	node.Name, node.Annotations, node.Labels = "n0", nil, map[string]string{v1alpha1.LabelOwned: "true"}
	c.show(node)
	list := corev1.ResourceList{"count/resourceclaims.resource.k8s.io": resource.MustParse("3")}
	q := hard(corev1.ResourceList{"count/resourceclaims.resource.k8s.io": resource.MustParse("0")}, list, nil)
	c.show(&q)
	first := testGang("first", 2, "1")
	c.show(first)
	now := time.Unix(1_700_000_000, 0)
	decide := func() int {
		c.loop.tell(t.Context(), now)
		result := c.loop.core.Decide(conversion.Instant(now))
		for _, plan := range result.Plans {
			if plan.Pod {
				p := testPod(plan.Name, "1")
				p.Spec.NodeName, p.Annotations = "n0", map[string]string{v1alpha1.AnnotationGPUs: plan.Members[0].GPUs[0]}
				c.show(p)
			} else {
				c.show(placementOf(first, plan, 1, now))
			}
		}
		return len(result.Plans)
	}
	if decide() != 1 {
		t.Fatal("the first is not planned")
	}
	c.show(testPod("lone", "1"))
	if decide() != 1 {
		t.Fatal("a lone pod is not bound although the quota has room for its claim")
	}
	c.show(testGang("late", 1, "1"))
	if decide() != 0 {
		t.Error("planned although all claims of the quota are coming")
	}
}
