package gang

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/memberpod"
)

// selectedNode is the annotation by which a scheduler tells the provisioner of a
// claim for which node its volume is to be made.
const selectedNode = "volume.kubernetes.io/selected-node"

// claimNode is a claim of a gang's members, and the node of the first of them.
type claimNode struct{ claim, node string }

// claimsOf are the claims that members use, each with the node of the first
// member that does: a claim is one volume, made for one node.
func claimsOf(g *v1alpha1.Gang, members []place) []claimNode {
	var out []claimNode
	seen := map[string]bool{}
	for i := range members {
		m := &members[i]
		role := memberpod.Role(g, m.member.Role)
		if role == nil || m.member.Node < 0 || int(m.member.Node) >= len(m.placement.Spec.Nodes) {
			continue
		}
		for k := range role.Template.Spec.Volumes {
			if source := role.Template.Spec.Volumes[k].PersistentVolumeClaim; source != nil && !seen[source.ClaimName] {
				seen[source.ClaimName] = true
				out = append(out, claimNode{source.ClaimName, m.placement.Spec.Nodes[m.member.Node]})
			}
		}
	}
	return out
}

// chooseNodes does for claims whose volumes are made for a node what a scheduler
// that binds pods does, and what pods that carry their node from the start go
// without: it tells which node. Where no class of the cluster makes volumes so,
// nothing is read.
func (c *Controller) chooseNodes(ctx context.Context, g *v1alpha1.Gang, members []place) error {
	claims := claimsOf(g, members)
	if len(claims) == 0 {
		return nil
	}
	var classes storagev1.StorageClassList
	if err := c.options.Client.List(ctx, &classes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing the storage classes: %w", err)
	}
	late := map[string]bool{}
	for i := range classes.Items {
		if mode := classes.Items[i].VolumeBindingMode; mode != nil && *mode == storagev1.VolumeBindingWaitForFirstConsumer {
			late[classes.Items[i].Name] = true
		}
	}
	if len(late) == 0 {
		return nil
	}
	for _, want := range claims {
		claim := &corev1.PersistentVolumeClaim{}
		err := c.options.Live.Get(ctx, types.NamespacedName{Namespace: g.Namespace, Name: want.claim}, claim)
		if apierrors.IsNotFound(err) {
			continue // its pod says so
		}
		if err != nil {
			return fmt.Errorf("reading claim %s/%s: %w", g.Namespace, want.claim, err)
		}
		class := claim.Spec.StorageClassName
		if claim.Spec.VolumeName != "" || class == nil || !late[*class] || claim.Annotations[selectedNode] == want.node {
			continue
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": claim.UID, "annotations": map[string]string{selectedNode: want.node}}})
		if err == nil {
			err = c.options.Client.Patch(ctx, claim, client.RawPatch(types.MergePatchType, patch))
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("choosing the node of claim %s/%s: %w", g.Namespace, want.claim, err)
		}
	}
	return nil
}
