package snapshot

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestNodes shows the GPUs of nodes that tell of them by themselves, of those
// whose drivers name them and of those that count them, as far as they are
// Muster's and the reader may see them.
func TestNodes(t *testing.T) {
	node := func(name string, labels map[string]string, gpus string, inventory string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if gpus != "" {
			n.Status.Allocatable = corev1.ResourceList{"example.com/gpu": resource.MustParse(gpus)}
		}
		if inventory != "" {
			n.Annotations = map[string]string{v1alpha1.AnnotationInventory: inventory}
		}
		return n
	}
	owned := map[string]string{v1alpha1.LabelOwned: "true"}
	counts := map[string]string{v1alpha1.LabelOwned: "true", v1alpha1.LabelGPUModel: "NVIDIA-H100-80GB-HBM3", v1alpha1.LabelGPUMemory: "81559"}
	yes := true
	pretended := namedSlice("s", "names", "gpu.muster.dev", "A100", true, "u0", "u1")
	pretended.Spec.Devices[1].Attributes["simulated"] = resourcev1.DeviceAttribute{BoolValue: &yes}
	both := map[string]string{v1alpha1.LabelOwned: "true", v1alpha1.LabelAgent: "true"}
	all := fake.NewClientBuilder().WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SystemNamespace, Annotations: map[string]string{v1alpha1.AnnotationGPUResources: "example.com/gpu"}}},
		node("tells", nil, "", `{"gpus":[{"index":0,"uuid":"GPU-a","model":"A100","memoryMiB":81920}]}`),
		node("names", owned, "", ""), pretended,
		node("both", both, "2", ""), namedSlice("b", "both", "gpu.muster.dev", "A100", true, "u5"),
		node("counts", counts, "2", ""),
		node("others", nil, "4", ""), namedSlice("o", "others", "gpu.muster.dev", "A100", true, "u9"),
		node("none", owned, "", "")).Build()
	const (
		tells   = `{"gpus":[{"index":0,"uuid":"GPU-a","model":"A100","memoryMiB":81920}]}`
		names   = `{"gpus":[{"index":0,"uuid":"u0","model":"A100","memoryMiB":81920},{"index":1,"uuid":"u1","model":"A100","memoryMiB":81920,"simulated":true}]}`
		two     = `{"gpus":[{"index":0,"uuid":"u5","model":"A100","memoryMiB":81920}]}`
		counted = `{"gpus":[{"index":0,"uuid":"counted-0","model":"H100","memoryMiB":81559},{"index":1,"uuid":"counted-1","model":"H100","memoryMiB":81559}]}`
	)
	inventories := func(r client.Reader) map[string]string {
		t.Helper()
		list, err := Nodes(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, n := range list {
			out[n.Name] = n.Annotations[v1alpha1.AnnotationInventory]
		}
		return out
	}
	want := map[string]string{"tells": tells, "names": names, "both": two, "counts": counted, "others": "", "none": ""}
	if diff := cmp.Diff(want, inventories(all)); diff != "" {
		t.Error(diff)
	}

	forbidden := func(what string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: what}, "", nil)
	}
	may := interceptor.NewClient(all, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if _, ok := list.(*resourcev1.ResourceSliceList); ok {
				return forbidden("resourceslices")
			}
			return c.List(ctx, list, o...)
		},
	})
	want["names"], want["both"] = "", "" // and not the two that a plugin counts there
	if diff := cmp.Diff(want, inventories(may)); diff != "" {
		t.Errorf("for somebody who may not read slices: %s", diff)
	}
	mayNot := interceptor.NewClient(all, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return forbidden("nodes")
		},
	})
	if _, err := Nodes(t.Context(), mayNot); !apierrors.IsForbidden(err) {
		t.Errorf("somebody who may not see nodes is told %v", err)
	}
}
