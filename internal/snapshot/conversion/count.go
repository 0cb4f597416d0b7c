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

// GPUResources are the extended resources by which GPUs are counted and asked
// for; nil: that of NVIDIA alone.
type GPUResources []corev1.ResourceName

// names are the resources.
func (g GPUResources) names() []corev1.ResourceName {
	if len(g) == 0 {
		return []corev1.ResourceName{v1alpha1.ResourceGPU}
	}
	return g
}

// first is the resource that is asked for where no node says which.
func (g GPUResources) first() corev1.ResourceName { return g.names()[0] }

// has reports whether a resource counts GPUs.
func (g GPUResources) has(name corev1.ResourceName) bool {
	return name == v1alpha1.ResourceGPU && len(g) == 0 || slices.Contains(g, name)
}

// sum is how many GPUs a list of amounts comes to.
func (g GPUResources) sum(list corev1.ResourceList) int32 {
	var n int64
	for _, name := range g.names() {
		q := list[name]
		n += q.Value()
	}
	return int32(min(max(0, n), 1<<20))
}

// maxCounted is how many GPUs of a node are looked at, more than any has.
const maxCounted = 64

// count enters the GPUs of a node that only says how many it has: devices with
// made-up names if the node is Muster's alone, else what others give out. All of
// them are of one model, that of its labels. Of a node with several kinds of
// GPUs the first of the resources counts.
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

// modelOf is the model of a node's GPUs as people write it: a slice of a GPU
// that is given out as if it were one is named for what it is, A100-MIG-1G.5GB.
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

// memoryOf is the size of the memory of each of a node's GPUs in MiB; 0 where
// nobody says.
func memoryOf(labels map[string]string) int64 {
	for _, key := range []string{v1alpha1.LabelMemory, v1alpha1.LabelGPUMemory} {
		if mib, err := strconv.ParseInt(labels[key], 10, 64); err == nil && mib > 0 {
			return mib
		}
	}
	return 0
}

// GPUResourcesOf are the resources that count GPUs, as whoever runs the scheduler wrote
// them down.
func GPUResourcesOf(namespaces []corev1.Namespace) GPUResources {
	var out GPUResources
	for _, name := range noted(namespaces, v1alpha1.AnnotationGPUResources) {
		out = append(out, corev1.ResourceName(name))
	}
	return out
}

// Signs are the signs of nodes that are about to go, in the same way. What is
// not understood was written by another version, which knows more signs.
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

// noted are the words of an annotation of Muster's namespace.
func noted(namespaces []corev1.Namespace, annotation string) []string {
	for i := range namespaces {
		if namespaces[i].Name == v1alpha1.SystemNamespace {
			return Words(namespaces[i].Annotations[annotation])
		}
	}
	return nil
}

// Avoided are the nodes that cool off for a gang.
func Avoided(g *v1alpha1.Gang) []scheduling.Avoided {
	var out []scheduling.Avoided
	for _, a := range g.Status.Avoided {
		out = append(out, scheduling.Avoided{Node: a.Node, Why: "cools off until " + a.Until.UTC().Format("15:04:05Z") + " after it did not take this: " + a.Why})
	}
	return out
}

// named enters the GPUs that a node's drivers name in ResourceSlices: devices if the
// node is Muster's alone, else what others give out. It is false where there are
// none.
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

// Owned reports whether a node is Muster's alone.
func Owned(n *corev1.Node) bool { return n != nil && n.Labels[v1alpha1.LabelOwned] == "true" }
