package snapshot

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/inventory"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// Nodes lists the nodes for whoever shows them, each with the inventory
// (annotation muster.dev/inventory) that Muster's own nodes write themselves: on
// a cluster it is made of what drivers name in ResourceSlices, or of what device
// plugins count, as the scheduler sees it. Nodes that are not Muster's, and GPUs
// that the reader may not see, have none.
func Nodes(ctx context.Context, r client.Reader) ([]corev1.Node, error) {
	nodes, parts, space := &corev1.NodeList{}, &resourcev1.ResourceSliceList{}, &corev1.Namespace{}
	if err := r.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("listing the nodes: %w", err)
	}
	err := r.List(ctx, parts)
	unseen := apierrors.IsForbidden(err) || apierrors.IsNotFound(err) // such as of a server that has none
	if err != nil && !unseen {
		return nil, fmt.Errorf("listing the ResourceSlices: %w", err)
	}
	err = r.Get(ctx, client.ObjectKey{Name: v1alpha1.SystemNamespace}, space)
	if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading the GPU resources in namespace %s: %w", v1alpha1.SystemNamespace, err)
	}
	gpus, of := conversion.GPUResourcesOf([]corev1.Namespace{*space}), byNode(parts.Items)
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if n.Annotations[v1alpha1.AnnotationInventory] != "" || unseen && n.Labels[v1alpha1.LabelAgent] != "" {
			continue // what a device plugin counts beside the agent does not count
		}
		text, err := inventoryFor(gpus, n, of[n.Name])
		if err != nil {
			return nil, err
		}
		if text == "" {
			continue
		}
		told := n.DeepCopy() // what is read may be a cache's
		if told.Annotations == nil {
			told.Annotations = map[string]string{}
		}
		told.Annotations[v1alpha1.AnnotationInventory] = text
		nodes.Items[i] = *told
	}
	return nodes.Items, nil
}

// inventoryFor returns the inventory annotation for a node of a GPU driver; empty if
// Muster assigns none of its GPUs.
func inventoryFor(g conversion.GPUResources, n *corev1.Node, parts []*resourcev1.ResourceSlice) (string, error) {
	var out v1alpha1.NodeInventory
	pretended := map[string]bool{}
	for _, named := range inventory.Of(parts) {
		pretended[named.ID()] = named.Simulated
	}
	for _, d := range g.Node(n, parts...).Devices {
		out.GPUs = append(out.GPUs, v1alpha1.GPUDevice{Index: d.Index, UUID: d.UUID, Model: d.Model, MemoryMiB: d.MemoryMiB, Simulated: pretended[d.UUID], Unhealthy: d.Unhealthy})
	}
	if len(out.GPUs) == 0 {
		return "", nil
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("writing the inventory of node %s: %w", n.Name, err)
	}
	return string(text), nil
}
