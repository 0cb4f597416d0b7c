//go:build embedded

package rehearsal

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// AddOwned makes a node of Muster's that names its GPUs, GPU-<node>-<index>.
func AddOwned(t *testing.T, server client.Client, name string, gpus int) {
	t.Helper()
	inventory := v1alpha1.NodeInventory{HostPorts: &v1alpha1.PortRange{First: 20000, Last: 29999}}
	for i := range gpus {
		inventory.GPUs = append(inventory.GPUs, v1alpha1.GPUDevice{Index: i, UUID: fmt.Sprintf("GPU-%s-%d", name, i), Model: "A100"})
	}
	text, err := json.Marshal(inventory)
	if err != nil {
		t.Fatal(err)
	}
	AddNode(t, server, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{v1alpha1.LabelOwned: "true"}, Annotations: map[string]string{v1alpha1.AnnotationInventory: string(text)},
	}}, gpus)
}

// AddNode makes a node, which counts so many GPUs, and waits until it is ready.
func AddNode(t *testing.T, server client.Client, n *corev1.Node, gpus int) {
	t.Helper()
	if err := server.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	now, from := metav1.Now(), n.DeepCopy()
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now}}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods: resource.MustParse("1000"), v1alpha1.ResourceGPU: *resource.NewQuantity(int64(gpus), resource.DecimalSI),
	}
	n.Status.Capacity = n.Status.Allocatable
	if err := server.Status().Patch(t.Context(), n, client.MergeFrom(from)); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the node is ready", func(ctx context.Context) bool {
		return server.Get(ctx, client.ObjectKeyFromObject(n), n) == nil && len(n.Spec.Taints) == 0
	})
}
