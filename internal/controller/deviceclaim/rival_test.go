package deviceclaim

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/inventory"
)

// theirs is a claim of others that has devices of node-1.
func theirs(devices ...string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "others", Name: "takes", UID: "takes"}}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	for _, d := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{Driver: inventory.Driver, Pool: "node-1", Device: d})
	}
	return c
}

// A device that a claim of others got after the job was placed is not given out again: the member
// gives its attempt back, and names that claim.
func TestADeviceOfOthersIsNotGivenAgain(t *testing.T) {
	yes := true
	admin, part := theirs("d-b"), theirs("d-b")
	admin.Status.Allocation.Devices.Results[0].AdminAccess = &yes
	gpu := inventory.Of([]*resourcev1.ResourceSlice{nodeSlice("b")})
	shared, err := inventory.Allocation("node-1", gpu, &v1alpha1.GPUShare{Milli: 600})
	if err != nil {
		t.Fatal(err)
	}
	part.Status.Allocation = shared
	forged := theirs("d-b")
	forged.Labels = map[string]string{v1alpha1.LabelGang: "train"}
	forged.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "theirs", UID: "theirs", Controller: &yes}}
	forged.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "theirs", UID: "theirs"}}
	for name, tt := range map[string]struct {
		share  string
		claim  *resourcev1.ResourceClaim
		refuse bool
	}{
		"the same device":                   {"", theirs("d-b"), true},
		"another device":                    {"", theirs("d-c"), false},
		"for an administrator":              {"", admin, false},
		"a part, of all":                    {"", part, true},
		"a part, beside a part that fits":   {`{"milli":400}`, part, false},
		"a part, beside too large a part":   {`{"milli":500}`, part, true},
		"of a template with Muster's label": {"", forged, true},
		"deallocated":                       {"", &resourcev1.ResourceClaim{ObjectMeta: theirs().ObjectMeta}, false},
	} {
		t.Run(name, func(t *testing.T) {
			owner := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "others", Name: "theirs", UID: "theirs"}, Spec: corev1.PodSpec{SchedulerName: "default-scheduler", NodeName: "node-1"}}
			gpus := "b"
			c, api := stage(member(gpus, tt.share), nodeSlice("a", "b", "c"), tt.claim.DeepCopy(), owner)
			for range 2 {
				if _, err := c.Reconcile(t.Context(), request); err != nil {
					t.Fatal(err)
				}
			}
			pod := podOf(t, api)
			refused := pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == v1alpha1.ReasonRefused
			if refused != tt.refuse {
				t.Fatalf("the pod is %s %s: %s", pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
			}
			if given := claimOf(t, api).Status.Allocation != nil; given == tt.refuse {
				t.Errorf("its claim is allocated: %t", given)
			}
			if tt.refuse && !strings.Contains(pod.Status.Message, "others/takes") {
				t.Errorf("it does not say who has it: %s", pod.Status.Message)
			}
		})
	}
}

// Two claims of one device that were allocated at the same time: a member that has not
// started gives way, one that runs does not; a lone pod waits.
func TestWhoGivesWay(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		refuse bool
	}{
		"it has not started": {func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}}
		}, true},
		"it runs": {func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, false},
		"its init container has run": {func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
		}, false},
		"it is deleted": {func(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp, p.Finalizers = &now, []string{"x/y"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			c, api := stage(member("b", ""), nodeSlice("a", "b"))
			if _, err := c.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			other := theirs("d-b")
			if err := api.Create(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			pod := podOf(t, api)
			status := pod.DeepCopy()
			tt.change(status)
			pod.Finalizers = status.Finalizers
			if err := api.Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			pod.Status = status.Status
			if err := api.Status().Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			if status.DeletionTimestamp != nil {
				if err := api.Delete(t.Context(), pod); err != nil {
					t.Fatal(err)
				}
			}
			asked := c.rivals(t.Context(), other)
			if len(asked) != 1 || asked[0] != request {
				t.Fatalf("the claim of others has %v looked at, want %v", asked, request)
			}
			if _, err := c.Reconcile(t.Context(), asked[0]); err != nil {
				t.Fatal(err)
			}
			if got := podOf(t, api).Status.Reason == v1alpha1.ReasonRefused; got != tt.refuse {
				t.Errorf("given back: %t, want %t", got, tt.refuse)
			}
		})
	}
}

// A claim that a quota does not allow gives the attempt back, in the quota's words.
func TestAClaimThatIsNotAllowed(t *testing.T) {
	const says = "exceeded quota: q, requested: gpu.muster.dev.deviceclass.resource.k8s.io/devices=1, used: gpu.muster.dev.deviceclass.resource.k8s.io/devices=1, limited: gpu.muster.dev.deviceclass.resource.k8s.io/devices=1"
	api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(member("a", ""), nodeSlice("a")).WithStatusSubresource(&corev1.Pod{}).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			return apierrors.NewForbidden(resourcev1.Resource("resourceclaims"), o.GetName(), errors.New(says))
		}}).Build()
	c := New(Options{Client: api, Live: api})
	if _, err := c.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := api.Get(t.Context(), types.NamespacedName{Namespace: "team", Name: "train-worker-0"}, pod); err != nil {
		t.Fatal(err)
	}
	if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != v1alpha1.ReasonUnclaimed || !strings.Contains(pod.Status.Message, says) {
		t.Errorf("%s %s: %s", pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
	}
}
