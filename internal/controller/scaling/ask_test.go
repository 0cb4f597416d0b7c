package scaling

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// counting is a node that counts GPUs, and naming a slice of a driver's devices.
func counting(n string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "counts-" + n}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{v1alpha1.ResourceGPU: resource.MustParse(n)}}}
}

func naming(driver string) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: resourcev1.ResourceSliceSpec{Driver: driver, Devices: []resourcev1.Device{{Name: "0"}}}}
}

func TestWays(t *testing.T) {
	for name, c := range map[string]struct {
		askBy  string
		nodes  []corev1.Node
		slices []resourcev1.ResourceSlice
		want   way
		cannot bool
	}{
		"nodes count":             {nodes: []corev1.Node{*counting("8")}, want: way{resource: v1alpha1.ResourceGPU}},
		"no GPU yet":              {nodes: []corev1.Node{*counting("0")}, want: way{resource: v1alpha1.ResourceGPU}},
		"a driver of networks":    {slices: []resourcev1.ResourceSlice{*naming("net.example.com")}, want: way{resource: v1alpha1.ResourceGPU}},
		"both":                    {nodes: []corev1.Node{*counting("8")}, slices: []resourcev1.ResourceSlice{*naming("gpu.nvidia.com")}, want: way{resource: v1alpha1.ResourceGPU}},
		"drivers alone":           {nodes: []corev1.Node{*counting("0")}, slices: []resourcev1.ResourceSlice{*naming("gpu.nvidia.com")}, want: way{resource: v1alpha1.ResourceGPU}, cannot: true},
		"drivers, and a class":    {askBy: "gpu.nvidia.com", slices: []resourcev1.ResourceSlice{*naming("gpu.nvidia.com")}, want: way{class: "gpu.nvidia.com"}},
		"drivers, all the same":   {askBy: ByResource, slices: []resourcev1.ResourceSlice{*naming("gpu.nvidia.com")}, want: way{resource: v1alpha1.ResourceGPU}},
		"a class and no node yet": {askBy: "gpu.nvidia.com", want: way{class: "gpu.nvidia.com"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, can := ways(c.askBy, v1alpha1.ResourceGPU, c.nodes, c.slices)
			if got != c.want || can == c.cannot {
				t.Errorf("%+v %v, want %+v %v", got, can, c.want, !c.cannot)
			}
		})
	}
}

// asking is a controller on an API server, with a gang with GPUs and one without
// that have wanted nodes for long.
func asking(t *testing.T, askBy string, objects ...client.Object) (*Controller, *events.FakeRecorder) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, resourcev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	told, now := events.NewFakeRecorder(10), noon
	c := New(Options{On: true, AskBy: askBy, Now: func() time.Time { return now }})
	c.client, c.events = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&corev1.Pod{}).Build(), told
	gpus, none, yes := testGang("a", 2), testGang("b", 1), true
	gpus.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TrainingJob", Name: "a", UID: "job", Controller: &yes}}
	none.Spec.Roles[0].GPUs = nil
	all := []*v1alpha1.Gang{gpus, none}
	c.Tell(all, all)
	for range 3 { // it has just begun to want them, and then for long
		if _, err := c.round(t.Context()); err != nil {
			t.Fatal(err)
		}
		if now.Equal(noon) && len(told.Events) > 0 {
			t.Error("it is told something before it has waited")
		}
		now = now.Add(time.Minute)
	}
	return c, told
}

// asked are the placeholders, and how each asks for GPUs.
func asked(t *testing.T, c *Controller) map[string]string {
	t.Helper()
	var pods corev1.PodList
	if err := c.client.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for i := range pods.Items {
		p := &pods.Items[i]
		r := p.Spec.Containers[0].Resources
		out[p.Name] = r.Limits.Name(v1alpha1.ResourceGPU, resource.DecimalSI).String()
		if len(r.Claims) > 0 {
			out[p.Name] += ", " + r.Claims[0].Name + " " + *p.Spec.ResourceClaims[0].ResourceClaimTemplateName
		}
	}
	return out
}

// Where drivers alone name GPUs an autoscaler is asked in words that it understands,
// or not at all, and the job says why; gangs without GPUs ask as ever.
func TestWhereDriversNameGPUs(t *testing.T) {
	t.Run("nothing is said of it", func(t *testing.T) {
		c, told := asking(t, "", naming("gpu.nvidia.com"))
		if diff := cmp.Diff(map[string]string{"for-b-worker-0": "0"}, asked(t, c)); diff != "" {
			t.Error(diff)
		}
		if n := len(told.Events); n != 1 {
			t.Fatalf("it was told %d times", n)
		}
		if text := <-told.Events; text != "Warning NoNodesAsked "+refusedText(v1alpha1.ResourceGPU) {
			t.Errorf("it was told %q", text)
		}
	})
	t.Run("a class", func(t *testing.T) {
		c, told := asking(t, "gpu.nvidia.com", naming("gpu.nvidia.com"))
		by := "0, gpus 1-of-gpu.nvidia.com"
		if diff := cmp.Diff(map[string]string{"for-a-worker-0": by, "for-a-worker-1": by, "for-b-worker-0": "0"}, asked(t, c)); diff != "" || len(told.Events) > 0 {
			t.Errorf("%d events, %s", len(told.Events), diff)
		}
		template := &resourcev1.ResourceClaimTemplate{}
		if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: v1alpha1.SystemNamespace, Name: "1-of-gpu.nvidia.com"}, template); err != nil {
			t.Fatal(err)
		}
		if r := template.Spec.Spec.Devices.Requests[0].Exactly; r.Count != 1 || r.DeviceClassName != "gpu.nvidia.com" || len(r.Tolerations) != 1 {
			t.Errorf("claims ask for %+v", r)
		}
	})
	t.Run("nodes count them", func(t *testing.T) {
		c, told := asking(t, "", naming("gpu.nvidia.com"), counting("8"))
		if diff := cmp.Diff(map[string]string{"for-a-worker-0": "1", "for-a-worker-1": "1", "for-b-worker-0": "0"}, asked(t, c)); diff != "" || len(told.Events) > 0 {
			t.Errorf("%d events, %s", len(told.Events), diff)
		}
	})
}
