package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/allocation"
	"github.com/muster-dev/muster/internal/inventory"
)

// A lone pod asks for GPUs by a resource and names no claim. On a node where a
// driver gives them it gets one all the same, as Kubernetes provides for
// resources that a driver has (DRAExtendedResource): before it is bound, its
// status names the claim and whose request it answers.

// gpusAt are the GPUs of a node that a plan names, nil if no driver names them
// there.
func (m *mirror) gpusAt(node string, ids []string) []inventory.GPU {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := inventory.Of(m.whole[node])
	var out []inventory.GPU
	for _, id := range ids {
		at := slices.IndexFunc(all, func(g inventory.GPU) bool { return g.ID() == id })
		if at < 0 {
			return nil
		}
		out = append(out, all[at])
	}
	return out
}

// stillFree returns a message with the claim of others that got one of these GPUs since the plan.
func (m *mirror) stillFree(gpus []inventory.GPU) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range gpus {
		if held := m.book.On(allocation.Device{Driver: gpus[i].Driver, Pool: gpus[i].Pool, Name: gpus[i].Name}); len(held) > 0 {
			return fmt.Errorf("GPU %s has been allocated to claim %s, which Muster did not make", gpus[i].ID(), held[0].Claim)
		}
	}
	return nil
}

// claim gives a lone pod GPUs by a claim, and returns the version of the pod
// that names it. The version that was planned from is a precondition, as it is
// of the binding.
func (l *Loop) claim(ctx context.Context, p *corev1.Pod, gpus []inventory.GPU, share *v1alpha1.GPUShare) (string, error) {
	if err := l.mayWrite(ctx); err != nil {
		return "", err
	}
	container, by, _ := l.mirror.gpus.Asker(&p.Spec)
	name := fmt.Sprintf("%s-%.8s", p.Name[:min(len(p.Name), 240)], p.UID)
	claim := inventory.Claim(p, name, len(gpus), share)
	err := l.options.Client.Create(ctx, claim)
	if apierrors.IsAlreadyExists(err) {
		err = l.options.Live.Get(ctx, client.ObjectKeyFromObject(claim), claim)
		if err == nil && !metav1.IsControlledBy(claim, p) {
			err = errors.New("a claim of that name exists that is not the pod's")
		}
	}
	if err != nil {
		return "", fmt.Errorf("creating claim %s/%s: %w", p.Namespace, name, err)
	}
	if err := l.mirror.stillFree(gpus); err != nil {
		return "", fmt.Errorf("allocating claim %s/%s: %w", p.Namespace, name, err)
	}
	if err := l.allocate(ctx, p, claim, gpus, share); err != nil {
		return "", fmt.Errorf("allocating claim %s/%s: %w", p.Namespace, name, err)
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.UID, "resourceVersion": p.ResourceVersion},
		"status": map[string]any{"extendedResourceClaimStatus": corev1.PodExtendedResourceClaimStatus{
			ResourceClaimName: name,
			RequestMappings:   []corev1.ContainerExtendedResourceRequest{{ContainerName: container, ResourceName: string(by), RequestName: inventory.Request}},
		}},
	})
	if err != nil {
		return "", fmt.Errorf("naming claim %s in its pod: %w", name, err)
	}
	told := p.DeepCopy()
	if err := l.options.Client.Status().Patch(ctx, told, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return "", fmt.Errorf("naming claim %s in its pod: %w", name, err)
	}
	return told.ResourceVersion, nil
}

// allocate gives a claim devices and reserves it for its pod. What an earlier
// plan that came to nothing gave it is taken back first.
func (l *Loop) allocate(ctx context.Context, p *corev1.Pod, claim *resourcev1.ResourceClaim, gpus []inventory.GPU, share *v1alpha1.GPUShare) error {
	to, err := inventory.Allocation(p.Spec.NodeName, gpus, share)
	if err != nil {
		return err
	}
	if had := claim.Status.Allocation; had != nil {
		if sameDevices(had, to) && inventory.Reserved(claim, p.UID) {
			return nil
		}
		claim.Status = resourcev1.ResourceClaimStatus{}
		if err := l.options.Client.Status().Update(ctx, claim); err != nil {
			return err
		}
	}
	claim.Status.Allocation = to
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.UID}}
	return l.options.Client.Status().Update(ctx, claim)
}

// sameDevices reports that two allocations are of the same parts of the same
// devices.
func sameDevices(a, b *resourcev1.AllocationResult) bool {
	return slices.EqualFunc(a.Devices.Results, b.Devices.Results, func(x, y resourcev1.DeviceRequestAllocationResult) bool {
		return x.Driver == y.Driver && x.Pool == y.Pool && x.Device == y.Device && equality.Semantic.DeepEqual(x.ConsumedCapacity, y.ConsumedCapacity)
	})
}
