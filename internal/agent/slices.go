package agent

import (
	"fmt"
	"regexp"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/muster-dev/muster/internal/inventory"
	"github.com/muster-dev/muster/internal/node/gpu"
)

// perSlice is how many devices a slice may have where they have taints.
const perSlice = 64

// longestText is how long an attribute of a device may be.
const longestText = 64

// resources are the node's GPUs as slices of one pool, which is the node's.
// Kubernetes's own scheduler is kept off them by a taint: the ledger is
// Muster's.
func resources(node string, devices []gpu.Device) resourceslice.DriverResources {
	var pool resourceslice.Pool
	for at := 0; at == 0 || at < len(devices); at += perSlice {
		var s resourceslice.Slice
		for _, d := range devices[at:min(at+perSlice, len(devices))] {
			s.Devices = append(s.Devices, deviceOf(d))
		}
		pool.Slices = append(pool.Slices, s)
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: pool}}
}

func deviceOf(d gpu.Device) resourcev1.Device {
	yes, index := true, int64(d.Index)
	out := resourcev1.Device{
		Name: deviceName(d),
		Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			inventory.AttributeUUID: text(d.UUID), inventory.AttributeModel: text(d.Model), inventory.AttributeIndex: {IntValue: &index},
		},
		Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
			inventory.CapacityCompute: {Value: *resource.NewQuantity(1000, resource.DecimalSI)},
		},
		AllowMultipleAllocations: &yes,
		Taints:                   []resourcev1.DeviceTaint{{Key: inventory.TaintOwned, Effect: resourcev1.DeviceTaintEffectNoSchedule}},
	}
	if d.Product != "" {
		out.Attributes[inventory.AttributeProduct] = text(d.Product)
	}
	if d.Simulated {
		out.Attributes[inventory.AttributeSimulated] = resourcev1.DeviceAttribute{BoolValue: &yes}
	}
	if d.Unhealthy != "" {
		out.Attributes[inventory.AttributeUnhealthy] = text(d.Unhealthy)
	}
	if d.MemoryMiB > 0 {
		out.Capacity[inventory.CapacityMemory] = resourcev1.DeviceCapacity{Value: *resource.NewQuantity(d.MemoryMiB<<20, resource.BinarySI)}
	}
	return out
}

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// deviceName names a device for as long as it is in the machine, wherever it is
// plugged in; by its number where its UUID is no name.
func deviceName(d gpu.Device) string {
	if name := strings.ToLower(d.UUID); label.MatchString(name) {
		return name
	}
	return fmt.Sprintf("gpu-%d", d.Index)
}

func text(s string) resourcev1.DeviceAttribute {
	if len(s) > longestText {
		s = strings.ToValidUTF8(s[:longestText-3], "") + "..."
	}
	return resourcev1.DeviceAttribute{StringValue: &s}
}
