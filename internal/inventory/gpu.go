package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/muster-dev/muster/internal/node/gpu/product"
)

// Driver is the name of Muster's own driver, and of the DeviceClass that claims
// for it name.
const Driver = "gpu.muster.dev"

// What a device of [Driver] says of itself. Drivers of others are asked for the
// same, and for productName instead of product.
const (
	// AttributeUUID identifies the GPU machine-wide.
	AttributeUUID = "uuid"
	// AttributeModel is what people call it, "A100"; AttributeProduct the
	// driver's full name.
	AttributeModel   = "model"
	AttributeProduct = "product"
	// AttributeIndex is its number as its driver counts.
	AttributeIndex = "index"
	// AttributeSimulated is true of one that was declared and does not exist.
	AttributeSimulated = "simulated"
	// AttributeUnhealthy says why it must not be given out.
	AttributeUnhealthy = "unhealthy"
	// CapacityMemory is its memory in bytes, CapacityCompute all of it in
	// thousandths: parts of one are amounts of both.
	CapacityMemory  = "memory"
	CapacityCompute = "compute"
)

// TaintOwned is the taint of devices that Muster alone gives out.
const TaintOwned = "muster.dev/owned"

const (
	wholeMilli = 1000
	mib        = 1 << 20
)

// GPU is one device of a node's slices.
type GPU struct {
	// Driver, Pool and Name identify it on the cluster.
	Driver, Pool, Name string
	// UUID identifies it on its machine; empty where its driver does not say.
	UUID string
	// Index is its place among the GPUs of its node.
	Index int
	// Model is the short name that people write.
	Model string
	// MemoryMiB is the size of its memory; 0 where it is not known.
	MemoryMiB int64
	// Shared is true of one of which parts can be given.
	Shared bool
	// Simulated is true of one that was declared and does not exist.
	Simulated bool
	// Unhealthy says why it must not be given out; empty if it may.
	Unhealthy string
}

// ID is what plans call it.
func (g *GPU) ID() string {
	if g.UUID != "" {
		return g.UUID
	}
	return g.Pool + "/" + g.Name
}

// Of lists the GPUs in the slices of one node, in the order of their indices, as
// far as their pools are [Whole].
func Of(parts []*resourcev1.ResourceSlice) []GPU {
	var out []GPU
	for _, s := range Whole(nil, parts) {
		if !strings.HasPrefix(s.Spec.Driver, "gpu.") {
			continue
		}
		for i := range s.Spec.Devices {
			if g, ok := gpuOf(&s.Spec, &s.Spec.Devices[i]); ok {
				out = append(out, g)
			}
		}
	}
	slices.SortFunc(out, func(a, b GPU) int {
		return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Name, b.Name))
	})
	for i := range out {
		out[i].Index = i
	}
	return out
}

// gpuOf reads one device. It is false for what is not a GPU of its own: one for
// a virtual machine, or a part that overlaps with others.
func gpuOf(spec *resourcev1.ResourceSliceSpec, d *resourcev1.Device) (GPU, bool) {
	a := attributes{spec.Driver, d.Attributes}
	kind := a.text("type")
	if kind != "" && kind != "gpu" && kind != "mig" || len(d.ConsumesCounters) > 0 {
		return GPU{}, false
	}
	g := GPU{
		Driver: spec.Driver, Pool: spec.Pool.Name, Name: d.Name, UUID: a.text(AttributeUUID), Index: int(a.number(AttributeIndex)),
		Model: a.text(AttributeModel), Simulated: a.truth(AttributeSimulated), Shared: d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations, Unhealthy: a.text(AttributeUnhealthy),
	}
	if g.Model == "" {
		g.Model = product.Model(cmp.Or(a.text(AttributeProduct), a.text("productName")))
	}
	if profile := a.text("profile"); kind == "mig" && profile != "" {
		g.Model += "-MIG-" + strings.ToUpper(profile)
	}
	if c, ok := a.capacity(d, CapacityMemory); ok {
		g.MemoryMiB = c.Value.Value() / mib
	}
	if _, ok := a.capacity(d, CapacityCompute); !ok || spec.Driver != Driver {
		g.Shared = false // in thousandths is what only ours understands
	}
	for _, t := range d.Taints {
		if t.Key != TaintOwned && (t.Effect == resourcev1.DeviceTaintEffectNoSchedule || t.Effect == resourcev1.DeviceTaintEffectNoExecute) && g.Unhealthy == "" {
			g.Unhealthy = strings.TrimSuffix(fmt.Sprintf("it has the device taint %s=%s", t.Key, t.Value), "=")
		}
	}
	return g, true
}

// attributes are a device's, as its driver named them: alone, or below its own
// name.
type attributes struct {
	driver string
	of     map[resourcev1.QualifiedName]resourcev1.DeviceAttribute
}

func (a attributes) get(name string) resourcev1.DeviceAttribute {
	if v, ok := a.of[resourcev1.QualifiedName(name)]; ok {
		return v
	}
	return a.of[resourcev1.QualifiedName(a.driver+"/"+name)]
}

func (a attributes) text(name string) string {
	if v := a.get(name).StringValue; v != nil {
		return *v
	}
	return ""
}

func (a attributes) truth(name string) bool {
	v := a.get(name).BoolValue
	return v != nil && *v
}

func (a attributes) number(name string) int64 {
	if v := a.get(name).IntValue; v != nil {
		return *v
	}
	return 0
}

func (a attributes) capacity(d *resourcev1.Device, name string) (resourcev1.DeviceCapacity, bool) {
	if v, ok := d.Capacity[resourcev1.QualifiedName(name)]; ok {
		return v, true
	}
	v, ok := d.Capacity[resourcev1.QualifiedName(a.driver+"/"+name)]
	return v, ok
}
