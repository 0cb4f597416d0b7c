//go:build embedded

package node_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/rehearsal"
	"github.com/muster-dev/muster/internal/departure"
)

// TestNodes adds, lists and removes nodes of a real API server.
func TestNodes(t *testing.T) {
	server := rehearsal.Start(t)
	makeNode(t, server, "gpu-1", 8, "")
	makeNode(t, server, "gpu-2", 4, "")
	makeNode(t, server, "cpu", 0, "")
	makeNode(t, server, "here", 0, `{"gpus":[{"index":0,"uuid":"GPU-0","model":"A100","memoryMiB":81920}]}`)
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}, Spec: corev1.PodSpec{NodeName: "gpu-1", Containers: []corev1.Container{{
		Name: "main", Image: "x", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{v1alpha1.ResourceGPU: resource.MustParse("2")}},
	}}}}
	if err := server.Client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	server.Run(t, []rehearsal.Step{
		{Args: "node list", Says: "`muster node add gpu-1` has Muster give them out"},
		{Args: "node add", Code: 2, Says: "add which node?"},
		{Args: "node ad", Code: 2, Says: "did you mean muster node add"},
		{Args: "node add gpu-2 gpu-9", Code: 3, Says: "there is no node gpu-9; did you mean"},
		{Args: "node list", Says: "`muster node add gpu-2` has Muster give them out"},
		{Args: "node add cpu", Code: 1, Says: "node cpu shows no GPU"},
		{Args: "node add here", Code: 1, Says: "they are Muster's already"},
		{Args: "node add gpu-1 gpu-2", Says: "pods that are not Muster's hold 2 of them until they end"},
		{Args: "node add gpu-2", Says: "node gpu-2 is Muster's already: 4 A100"},
		{Args: "node add gpu-2 -o json", Says: `"result": "unchanged"`},
		{Args: "node list -o json", Says: `"picks": "kubelet"`},
		{Args: "node remove here", Code: 1, Says: "cannot be removed"},
		{Args: "node remove --force --wait gpu-1", Code: 2, Says: "give one"},
	})
	for _, name := range []string{"gpu-1", "gpu-2"} {
		n := &corev1.Node{}
		if err := server.Client.Get(t.Context(), types.NamespacedName{Name: name}, n); err != nil {
			t.Fatal(err)
		}
		if n.Labels[v1alpha1.LabelOwned] != "true" || n.Labels[v1alpha1.LabelAgent] != "true" || len(n.Spec.Taints) == 0 {
			t.Errorf("%s: labels %v, taints %v", name, n.Labels, n.Spec.Taints)
		}
	}
	left := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bert-worker-0", Labels: map[string]string{
		v1alpha1.LabelGang: "bert", v1alpha1.LabelRole: "worker", v1alpha1.LabelIndex: "0",
	}}, Spec: *other.Spec.DeepCopy()}
	left.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	if err := server.Client.Create(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	server.Run(t, []rehearsal.Step{
		{Args: "node drain", Code: 2, Says: "drain which node?"},
		{Args: "node drain gpu-9", Code: 3, Says: "there is no node gpu-9"},
		{Args: "node drain gpu-1 --undo --notice 5s", Code: 2, Says: "without --notice"},
		{Args: "node drain gpu-1 --notice 5ms", Code: 2, Says: "give a second or more"},
		{Args: "node drain gpu-1 --notice 90s --timeout 1s", Code: 1, Says: "it is not drained after 1s: left are default/bert (worker-0)"},
		{Args: "node drain gpu-2", Says: "node gpu-2 drained"},
	})
	drained := &corev1.Node{}
	if err := server.Client.Get(t.Context(), types.NamespacedName{Name: "gpu-1"}, drained); err != nil {
		t.Fatal(err)
	}
	if d, ordered := departure.Ordered(drained); !ordered || d.Notice != 90*time.Second || !drained.Spec.Unschedulable {
		t.Errorf("gpu-1 is ordered: %v, %+v; %+v", ordered, d, drained.Spec)
	}
	server.Run(t, []rehearsal.Step{
		{Args: "node drain gpu-1 gpu-2 --undo", Says: "node gpu-1 takes work again"},
		{Args: "node drain gpu-1 --no-wait -o json", Says: `"result": "ordered"`},
		{Args: "node drain gpu-1 --undo", Says: "takes work again"},
	})
	if err := server.Client.Delete(t.Context(), left, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	place(t, server, "gpu-1")
	server.Run(t, []rehearsal.Step{
		{Args: "node list", Says: "kubelet"},
		{Args: "node remove gpu-1", Code: 1, Says: "node gpu-1 is not removed: default/train has GPUs there; give --wait"},
		{Args: "node remove gpu-1 --force", Says: "default/train has GPUs there until they end"},
		{Args: "node remove gpu-1", Code: 1, Says: "default/train has GPUs there"},
		{Args: "node remove gpu-2 --wait -o json", Says: `"result": "removed"`},
		{Args: "node remove gpu-2", Says: "node gpu-2 is not Muster's"},
	})
	// What was left on a node by force needs the agent there to its end.
	for name, wanted := range map[string]string{"gpu-1": "true", "gpu-2": ""} {
		n := &corev1.Node{}
		if err := server.Client.Get(t.Context(), types.NamespacedName{Name: name}, n); err != nil {
			t.Fatal(err)
		}
		if n.Labels[v1alpha1.LabelAgent] != wanted || n.Labels[v1alpha1.LabelOwned] != "" {
			t.Errorf("%s, removed: labels %v", name, n.Labels)
		}
	}
}

func makeNode(t *testing.T, server *rehearsal.Server, name string, gpus int64, inventory string) {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelGPUModel: "NVIDIA-A100-SXM4-80GB"}}}
	if inventory != "" {
		n.Annotations = map[string]string{v1alpha1.AnnotationInventory: inventory}
	}
	if err := server.Client.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), v1alpha1.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI)}
	n.Status.Capacity = n.Status.Allocatable
	if err := server.Client.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

// place journals a gang that has two GPUs of a node.
func place(t *testing.T, server *rehearsal.Server, node string) {
	t.Helper()
	two := resource.MustParse("2")
	g := &v1alpha1.Gang{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "train"}, Spec: v1alpha1.GangSpec{
		DoneWhen: []string{"worker"}, Roles: []v1alpha1.GangRole{{Name: "worker", Replicas: 1, GPUs: &two}},
	}}
	if err := server.Client.Create(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	p := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "train-1"}, Spec: v1alpha1.PlacementSpec{
		Gang: "train", GangUID: g.UID, Attempt: 1, Epoch: 1, Nodes: []string{node},
		Members: []v1alpha1.PlacedMember{{Role: "worker", GPUs: []string{"counted-0", "counted-1"}, Port: v1alpha1.DefaultPort}},
	}}
	if err := server.Client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}
