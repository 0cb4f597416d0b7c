package deviceclaim

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/inventory"
)

// member is a pod that was given GPUs of node-1 by a claim.
func member(gpus, share string) *corev1.Pod {
	name := "train-worker-0-x"
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "train-worker-0", UID: "pod-1", Labels: map[string]string{v1alpha1.LabelGang: "train"},
			Annotations: map[string]string{v1alpha1.AnnotationGPUs: gpus},
		},
		Spec:   corev1.PodSpec{NodeName: "node-1", SchedulerName: v1alpha1.SchedulerName, ResourceClaims: []corev1.PodResourceClaim{{Name: v1alpha1.GPUClaim, ResourceClaimName: &name}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if share != "" {
		p.Annotations[v1alpha1.AnnotationGPUShare] = share
	}
	return p
}

func nodeSlice(uuids ...string) *resourcev1.ResourceSlice {
	node, yes := "node-1", true
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{Driver: inventory.Driver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}}}
	for _, uuid := range uuids {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{
			Name: "d-" + uuid, AllowMultipleAllocations: &yes, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"uuid": {StringValue: &uuid}},
			Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"compute": {Value: resource.MustParse("1k")}, "memory": {Value: resource.MustParse("80Gi")}},
		})
	}
	return s
}

// stage is an API server in memory with the controller.
func stage(objects ...client.Object) (*Controller, client.Client) {
	api := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).
		WithStatusSubresource(&corev1.Pod{}, &resourcev1.ResourceClaim{}).
		WithIndex(&resourcev1.ResourceClaim{}, claimsByDevice, devicesOf).
		WithIndex(&resourcev1.ResourceSlice{}, slicesByNode, func(o client.Object) []string { return []string{*o.(*resourcev1.ResourceSlice).Spec.NodeName} }).Build()
	return New(Options{Client: api, Live: api, Now: func() time.Time { return time.Unix(1e9, 0) }}), api
}

var request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "team", Name: "train-worker-0"}}

func claimOf(t *testing.T, api client.Client) *resourcev1.ResourceClaim {
	t.Helper()
	c := &resourcev1.ResourceClaim{}
	if err := api.Get(t.Context(), types.NamespacedName{Namespace: "team", Name: "train-worker-0-x"}, c); err != nil {
		t.Fatal(err)
	}
	return c
}

func podOf(t *testing.T, api client.Client) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{}
	if err := api.Get(t.Context(), request.NamespacedName, p); err != nil {
		t.Fatal(err)
	}
	return p
}

// A member's claim is what its pod says, whatever the order in which it was
// given them; once it is ready the kubelet is told, and nothing more is written.
func TestAClaimIsMadeAndGiven(t *testing.T) {
	c, api := stage(member("b,a", ""), nodeSlice("a", "b", "c"))
	for range 3 {
		if r, err := c.Reconcile(t.Context(), request); err != nil || r != (reconcile.Result{}) {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	claim := claimOf(t, api)
	var got []string
	for _, r := range claim.Status.Allocation.Devices.Results {
		got = append(got, r.Device)
	}
	if diff := cmp.Diff([]string{"d-b", "d-a"}, got); diff != "" || !inventory.Reserved(claim, "pod-1") || len(claim.Status.ReservedFor) != 1 {
		t.Errorf("%s, reserved for %v", diff, claim.Status.ReservedFor)
	}
	if podOf(t, api).Annotations[v1alpha1.AnnotationClaimed] != "true" {
		t.Error("nobody woke the kubelet")
	}
	if claim.Labels[v1alpha1.LabelGang] != "train" || !metav1.IsControlledBy(claim, podOf(t, api)) {
		t.Errorf("it is of %v, with %v", claim.OwnerReferences, claim.Labels)
	}
}

// A crash after any write is made good by the next look.
func TestAfterACrash(t *testing.T) {
	pod, gpus := member("a", `{"milli":250,"memoryMiB":20480}`), nodeSlice("a")
	made := inventory.Claim(pod, "train-worker-0-x", 1, &v1alpha1.GPUShare{Milli: 250, MemoryMiB: 20480})
	given := made.DeepCopy()
	var err error
	if given.Status.Allocation, err = inventory.Allocation("node-1", inventory.Of([]*resourcev1.ResourceSlice{gpus}), &v1alpha1.GPUShare{Milli: 250, MemoryMiB: 20480}); err != nil {
		t.Fatal(err)
	}
	reserved := given.DeepCopy()
	reserved.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	for name, there := range map[string]*resourcev1.ResourceClaim{"made": made, "given": given, "reserved": reserved} {
		t.Run(name, func(t *testing.T) {
			c, api := stage(pod.DeepCopy(), gpus.DeepCopy(), there)
			if _, err := c.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			claim := claimOf(t, api)
			if milli, _ := inventory.Part(&claim.Status.Allocation.Devices.Results[0]); milli != 250 || !inventory.Reserved(claim, "pod-1") {
				t.Errorf("%+v", claim.Status)
			}
			if podOf(t, api).Annotations[v1alpha1.AnnotationClaimed] == "" {
				t.Error("nobody woke the kubelet")
			}
		})
	}
}

// What the node does not name now is waited for, and nothing else is given.
func TestADriverThatIsAway(t *testing.T) {
	c, api := stage(member("a,b", ""), nodeSlice("a"))
	r, err := c.Reconcile(t.Context(), request)
	if err != nil || r.RequeueAfter == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if claim := claimOf(t, api); claim.Status.Allocation != nil {
		t.Errorf("it was given %+v", claim.Status.Allocation)
	}
}

// Nothing is made for pods that have ended, or whose claim is somebody else's.
func TestWhatIsLeftAlone(t *testing.T) {
	over := member("a", "")
	over.Status.Phase = corev1.PodSucceeded
	c, api := stage(over, nodeSlice("a"))
	if _, err := c.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	claims := &resourcev1.ResourceClaimList{}
	if err := api.List(t.Context(), claims); err != nil || len(claims.Items) != 0 {
		t.Errorf("%d claims, %v", len(claims.Items), err)
	}
	other := inventory.Claim(member("a", ""), "train-worker-0-x", 1, nil)
	other.OwnerReferences[0].UID = "another"
	c, api = stage(member("a", ""), nodeSlice("a"), other)
	if _, err := c.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if claimOf(t, api).Status.Allocation != nil {
		t.Error("another pod's claim was given GPUs")
	}
}

// The driver's word on a share is passed on to its pod, once; so is that of a
// lone pod, whose claim others made.
func TestPassOn(t *testing.T) {
	lone := member("a", `{"milli":250}`)
	lone.Labels, lone.Spec.ResourceClaims = nil, nil
	lone.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "train-worker-0-x"}
	for name, pod := range map[string]*corev1.Pod{"a member": member("a", `{"milli":250}`), "a lone pod": lone} {
		t.Run(name, func(t *testing.T) {
			claim := inventory.Claim(pod, "train-worker-0-x", 1, nil)
			claim.Status = resourcev1.ResourceClaimStatus{
				Allocation:  &resourcev1.AllocationResult{},
				ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}},
				Devices: []resourcev1.AllocatedDeviceStatus{{Conditions: []metav1.Condition{{
					Type: v1alpha1.ConditionGPUShare, Status: metav1.ConditionFalse, Reason: "NotEnforced", Message: "250m, not enforced: so",
				}}}},
			}
			c, api := stage(pod, claim)
			var versions []string
			for range 3 {
				if _, err := c.Reconcile(context.WithoutCancel(t.Context()), request); err != nil {
					t.Fatal(err)
				}
				versions = append(versions, podOf(t, api).ResourceVersion)
			}
			conditions := podOf(t, api).Status.Conditions
			if len(conditions) != 1 || conditions[0].Message != "250m, not enforced: so" || conditions[0].Status != corev1.ConditionFalse {
				t.Errorf("it says %+v", conditions)
			}
			if versions[1] != versions[2] {
				t.Error("it is said again and again")
			}
		})
	}
}
