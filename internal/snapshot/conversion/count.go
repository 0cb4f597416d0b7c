package conversion

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/departure"
	"github.com/muster-dev/muster/internal/inventory"
	"github.com/muster-dev/muster/internal/node/gpu/product"
	"github.com/muster-dev/muster/internal/scheduling"
)

// GPUResources are the extended resources that count as GPUs; nil stands for NVIDIA's
// resource alone.
type GPUResources []corev1.ResourceName

// names returns the resources.
func (g GPUResources) names() []corev1.ResourceName {
	if len(g) == 0 {
		return []corev1.ResourceName{v1alpha1.ResourceGPU}
	}
	return g
}

// first returns the resource of a pod that has no node yet.
func (g GPUResources) first() corev1.ResourceName { return g.names()[0] }

// has reports whether a resource counts GPUs.
func (g GPUResources) has(name corev1.ResourceName) bool {
	return name == v1alpha1.ResourceGPU && len(g) == 0 || slices.Contains(g, name)
}

// sum returns the number of GPUs in a resource list.
func (g GPUResources) sum(list corev1.ResourceList) int32 {
	var n int64
	for _, name := range g.names() {
		q := list[name]
		n += q.Value()
	}
	return int32(min(max(0, n), 1<<20))
}

// maxCounted is the largest number of GPUs that Muster counts on a node. It is above the
// number in any machine.
const maxCounted = 64

// count sets the GPUs of a node whose device plugin reports only a number. If Muster
// alone assigns the node's GPUs, they become devices with generated names, else counts by
// model. All of them have the model of the node's labels. On a node with several GPU
// resources only the first one counts.
func (g GPUResources) count(n *corev1.Node, out *scheduling.Node) {
	total, model := 0, modelOf(n.Labels)
	for _, name := range g.names() {
		if q, ok := n.Status.Allocatable[name]; ok && q.Sign() > 0 {
			total = int(min(q.Value(), maxCounted))
			break
		}
	}
	owned := n.Labels[v1alpha1.LabelOwned] == "true"
	out.Counts = owned
	switch {
	case total == 0:
	case !owned:
		out.Unowned = []scheduling.ModelCount{{Model: model, Count: total}}
	default:
		memory := memoryOf(n.Labels)
		for i := range total {
			out.Devices = append(out.Devices, scheduling.Device{UUID: fmt.Sprint(v1alpha1.CountedGPU, i), Index: i, Model: model, MemoryMiB: memory})
		}
	}
}

// modelOf returns the model of a node's GPUs in its short form. A MIG slice that counts
// as a GPU has its profile in the name, such as A100-MIG-1G.5GB.
func modelOf(labels map[string]string) string {
	if own := labels[v1alpha1.LabelModel]; own != "" {
		return own
	}
	name, slice, sliced := strings.Cut(labels[v1alpha1.LabelGPUModel], "-MIG-")
	model := product.Model(name)
	if sliced {
		model += "-MIG-" + strings.ToUpper(slice)
	}
	return model
}

// memoryOf returns the memory of each of a node's GPUs in MiB; 0 if no label has it.
func memoryOf(labels map[string]string) int64 {
	for _, key := range []string{v1alpha1.LabelMemory, v1alpha1.LabelGPUMemory} {
		if mib, err := strconv.ParseInt(labels[key], 10, 64); err == nil && mib > 0 {
			return mib
		}
	}
	return 0
}

// GPUResourcesOf returns the GPU resources that the scheduler wrote to the annotations of
// Muster's namespace.
func GPUResourcesOf(namespaces []corev1.Namespace) GPUResources {
	var out GPUResources
	for _, name := range noted(namespaces, v1alpha1.AnnotationGPUResources) {
		out = append(out, corev1.ResourceName(name))
	}
	return out
}

// Signs returns the departure signs that the scheduler wrote to the annotations of
// Muster's namespace. It skips signs that it cannot parse: a newer version wrote them.
func Signs(namespaces []corev1.Namespace) departure.Signs {
	var out departure.Signs
	for _, text := range noted(namespaces, v1alpha1.AnnotationDepartureSigns) {
		if sign, err := departure.Parse(text); err == nil {
			out = append(out, sign)
		}
	}
	if len(out) == 0 {
		return departure.Known()
	}
	return out
}

// noted returns the words of an annotation of Muster's namespace.
func noted(namespaces []corev1.Namespace, annotation string) []string {
	for i := range namespaces {
		if namespaces[i].Name == v1alpha1.SystemNamespace {
			return Words(namespaces[i].Annotations[annotation])
		}
	}
	return nil
}

// Avoided returns the nodes that the scheduler avoids for a gang for a while.
func Avoided(g *v1alpha1.Gang) []scheduling.Avoided {
	var out []scheduling.Avoided
	for _, a := range g.Status.Avoided {
		out = append(out, scheduling.Avoided{Node: a.Node, Why: "cools off until " + a.Until.UTC().Format("15:04:05Z") + " after it did not take this: " + a.Why})
	}
	return out
}

// named sets the GPUs of a node from its drivers' ResourceSlices. If Muster alone
// assigns the node's GPUs, they become devices, else counts by model. It returns false
// without GPUs.
func named(n *corev1.Node, parts []*resourcev1.ResourceSlice, out *scheduling.Node) bool {
	gpus := inventory.Of(parts)
	if len(gpus) == 0 {
		return false
	}
	owned := Owned(n)
	out.Claims = true
	out.Whole = !slices.ContainsFunc(gpus, func(g inventory.GPU) bool { return g.Shared })
	for i := range gpus {
		g := &gpus[i]
		if owned {
			out.Devices = append(out.Devices, scheduling.Device{UUID: g.ID(), Index: g.Index, Model: g.Model, MemoryMiB: g.MemoryMiB, Unhealthy: g.Unhealthy})
			continue
		}
		at := slices.IndexFunc(out.Unowned, func(m scheduling.ModelCount) bool { return m.Model == g.Model })
		if at < 0 {
			at, out.Unowned = len(out.Unowned), append(out.Unowned, scheduling.ModelCount{Model: g.Model})
		}
		out.Unowned[at].Count++
	}
	return true
}

// Owned reports whether Muster alone assigns the node's GPUs.
func Owned(n *corev1.Node) bool { return n != nil && n.Labels[v1alpha1.LabelOwned] == "true" }
