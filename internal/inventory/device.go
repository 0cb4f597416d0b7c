package inventory

import (
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
)

// Device is a device of a driver of GPUs, with the GPU that a holder of the device has.
type Device struct {
	// Driver, Pool and Name identify it on the cluster.
	Driver, Pool, Name string
	// GPU is the name of the GPU in plans.
	GPU string
}

// Devices lists the devices in the slices of one node that are GPUs, and those that
// overlap with one: the same hardware given to a virtual machine, or a part of it. A
// device that overlaps with several GPUs is listed with each.
func Devices(parts []*resourcev1.ResourceSlice) []Device {
	gpus := Of(parts)
	if len(gpus) == 0 {
		return nil
	}
	at := func(driver, pool, name string) int {
		return slices.IndexFunc(gpus, func(g GPU) bool { return g.Driver == driver && g.Pool == pool && g.Name == name })
	}
	hardware := map[string][]string{} // GPUs by UUIDs and addresses
	var out []Device
	var others []Device
	var keys [][]string
	for _, s := range Whole(nil, parts) {
		if !strings.HasPrefix(s.Spec.Driver, "gpu.") {
			continue
		}
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			one, names := Device{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Name: d.Name}, hardwareOf(attributes{s.Spec.Driver, d.Attributes})
			if k := at(one.Driver, one.Pool, one.Name); k >= 0 {
				one.GPU = gpus[k].ID()
				out = append(out, one)
				for _, name := range names {
					hardware[name] = append(hardware[name], one.GPU)
				}
				continue
			}
			others, keys = append(others, one), append(keys, names)
		}
	}
	for i, d := range others {
		var overlaps []string
		for _, name := range keys[i] {
			overlaps = append(overlaps, hardware[name]...)
		}
		slices.Sort(overlaps)
		for _, d.GPU = range slices.Compact(overlaps) {
			out = append(out, d)
		}
	}
	return out
}

// hardwareOf returns the names of the hardware that a device is, or is part of.
func hardwareOf(a attributes) []string {
	var out []string
	for _, name := range []string{AttributeUUID, "parentUUID", "pciBusID", "pcieBusID", "resource.kubernetes.io/pciBusID"} {
		if v := a.text(name); v != "" {
			out = append(out, v)
		}
	}
	return out
}
