package allocation

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// slice is one of node n with these devices; each has its address on the bus, and a type.
func slice(devices ...[3]string) *resourcev1.ResourceSlice {
	node := "n"
	s := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: "gpu.nvidia.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}}}
	for _, d := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: d[0], Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"type": {StringValue: &d[1]}, "resource.kubernetes.io/pciBusID": {StringValue: &d[2]}}})
	}
	return s
}

func claim(name string, owner types.UID, reserved []types.UID, devices ...string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID(name)}}
	if owner != "" {
		yes := true
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: string(owner), UID: owner, Controller: &yes}}
	}
	for _, uid := range reserved {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: string(uid), UID: uid})
	}
	if len(devices) > 0 {
		c.Status.Allocation = &resourcev1.AllocationResult{}
	}
	for _, d := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{Driver: "gpu.nvidia.com", Pool: "n", Device: d})
	}
	return c
}

// Claims of others follow from the owners and the reservations of claims, and hold GPUs; a device
// that overlaps with a GPU holds it.
func TestWhoseClaimsCount(t *testing.T) {
	pods := map[types.UID]*corev1.Pod{}
	for name, scheduler := range map[types.UID]string{"mine": "muster", "theirs": "default-scheduler"} {
		pods[name] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: name}, Spec: corev1.PodSpec{SchedulerName: scheduler}}
	}
	for name, tt := range map[string]struct {
		claim *resourcev1.ResourceClaim
		want  []string
	}{
		"of Muster's pod":                      {claim("a", "mine", []types.UID{"mine"}, "gpu-0"), nil},
		"of a pod of another scheduler":        {claim("a", "theirs", []types.UID{"theirs"}, "gpu-0"), []string{"gpu-0"}},
		"of nobody":                            {claim("a", "", nil, "gpu-0", "gpu-1"), []string{"gpu-0", "gpu-1"}},
		"owned by Muster's, used by another":   {claim("a", "mine", []types.UID{"theirs"}, "gpu-0"), []string{"gpu-0"}},
		"shared by Muster's pod and another":   {claim("a", "mine", []types.UID{"mine", "theirs"}, "gpu-0"), []string{"gpu-0"}},
		"owned by Muster's, reserved for none": {claim("a", "mine", nil, "gpu-0"), []string{"gpu-0"}},
		"of a pod that is not known":           {claim("a", "gone", []types.UID{"gone"}, "gpu-0"), []string{"gpu-0"}},
		"of a pod that has ended":              {claim("a", "theirs", nil, "gpu-0"), []string{"gpu-0"}},
		"not allocated":                        {claim("a", "theirs", nil), nil},
		"a virtual machine's":                  {claim("a", "theirs", nil, "vfio-1"), []string{"gpu-1"}},
		"another's hardware":                   {claim("a", "theirs", nil, "vfio-9"), nil},
		"gone from its node":                   {claim("a", "theirs", nil, "gpu-7"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBook(func(uid types.UID) *corev1.Pod { return pods[uid] }, func(p *corev1.Pod) bool { return p.Spec.SchedulerName == "muster" })
			b.Shown(tt.claim)
			b.Node("n", []*resourcev1.ResourceSlice{slice([3]string{"gpu-0", "gpu", "0000:00"}, [3]string{"gpu-1", "gpu", "0000:01"}, [3]string{"vfio-1", "vfio", "0000:01"}, [3]string{"vfio-9", "vfio", "0000:09"})})
			_, held := b.Take(false)
			var got []string
			for _, h := range held {
				got = append(got, h.GPU[len("n/"):])
				if h.Node != "n" || !h.Whole() {
					t.Errorf("%+v", h)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A claim of Muster's stays Muster's when it loses its pod, and Take returns each change once.
func TestWhatChangesIsTold(t *testing.T) {
	pods := map[types.UID]*corev1.Pod{"mine": {ObjectMeta: metav1.ObjectMeta{UID: "mine"}, Spec: corev1.PodSpec{SchedulerName: "muster"}}}
	b := NewBook(func(uid types.UID) *corev1.Pod { return pods[uid] }, func(p *corev1.Pod) bool { return p.Spec.SchedulerName == "muster" })
	b.Node("n", []*resourcev1.ResourceSlice{slice([3]string{"gpu-0", "gpu", "0"})})
	step := func(what string, about, held int) {
		t.Helper()
		changed, now := b.Take(false)
		if len(changed) != about || len(now) != held || b.Changed() {
			t.Fatalf("%s: %v has changed, %v is held", what, changed, now)
		}
	}
	own := claim("own", "mine", []types.UID{"mine"}, "gpu-0")
	if b.Shown(own) {
		t.Error("a claim of Muster's matters")
	}
	step("Muster's", 0, 0)
	delete(pods, "mine")
	b.Shown(claim("own", "mine", nil, "gpu-0"))
	step("without its pod", 0, 0)
	b.Shown(claim("other", "", nil, "gpu-0"))
	step("allocated", 1, 1)
	step("as before", 0, 0)
	b.Shown(claim("other", "", nil))
	step("deallocated", 1, 0)
	b.Shown(claim("early", "late", []types.UID{"late"}, "gpu-0"))
	step("of a pod that is not known yet", 1, 1)
	pods["late"] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "late"}, Spec: corev1.PodSpec{SchedulerName: "muster"}}
	b.Pod("late")
	step("which is Muster's", 1, 0)
	b.Shown(claim("other", "", nil, "gpu-0"))
	b.Node("n", nil)
	step("on a node that Muster gave up", 0, 0)
	for _, c := range []*resourcev1.ResourceClaim{own, claim("other", "", nil), claim("early", "late", nil)} {
		b.Gone(c)
	}
	if text := fmt.Sprint(len(b.claims), len(b.spaces), len(b.own), len(b.waits), len(b.users), len(b.told), len(b.gpus), len(b.pools)); text != "0 0 0 0 0 0 0 0" {
		t.Errorf("it keeps something: %s", text)
	}
}
