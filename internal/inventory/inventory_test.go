package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// device is one of a slice; attributes are name and value in turn.
func device(name, memory string, attributes ...string) resourcev1.Device {
	d := resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}}
	for i := 0; i < len(attributes); i += 2 {
		d.Attributes[resourcev1.QualifiedName(attributes[i])] = resourcev1.DeviceAttribute{StringValue: &attributes[i+1]}
	}
	if memory != "" {
		d.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse(memory)}}
	}
	return d
}

func slice(driver string, generation int64, devices ...resourcev1.Device) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{
		Driver: driver, Pool: resourcev1.ResourcePool{Name: "node-1", Generation: generation, ResourceSliceCount: 1}, Devices: devices,
	}}
}

// ours is a device as Muster's agent publishes it.
func ours(name, uuid string, index int64) resourcev1.Device {
	yes := true
	d := device(name, "80Gi", "uuid", uuid, "model", "A100")
	d.Attributes["index"] = resourcev1.DeviceAttribute{IntValue: &index}
	d.Capacity["compute"] = resourcev1.DeviceCapacity{Value: resource.MustParse("1k")}
	d.AllowMultipleAllocations = &yes
	d.Taints = []resourcev1.DeviceTaint{{Key: TaintOwned, Effect: resourcev1.DeviceTaintEffectNoSchedule}}
	return d
}

func TestOf(t *testing.T) {
	changed := func(d resourcev1.Device, change func(*resourcev1.Device)) resourcev1.Device {
		change(&d)
		return d
	}
	for name, c := range map[string]struct {
		slices []*resourcev1.ResourceSlice
		want   []GPU
	}{
		"ours, by index": {
			[]*resourcev1.ResourceSlice{slice(Driver, 1, ours("b", "GPU-b", 1), ours("a", "GPU-a", 0))},
			[]GPU{
				{Driver: Driver, Pool: "node-1", Name: "a", UUID: "GPU-a", Model: "A100", MemoryMiB: 81920, Shared: true},
				{Driver: Driver, Pool: "node-1", Name: "b", UUID: "GPU-b", Index: 1, Model: "A100", MemoryMiB: 81920, Shared: true},
			},
		},
		"NVIDIA's": {
			[]*resourcev1.ResourceSlice{slice("gpu.nvidia.com", 1, device("gpu-0", "81559Mi", "type", "gpu", "uuid", "GPU-0", "productName", "NVIDIA H100 80GB HBM3"))},
			[]GPU{{Driver: "gpu.nvidia.com", Pool: "node-1", Name: "gpu-0", UUID: "GPU-0", Model: "H100", MemoryMiB: 81559}},
		},
		"names below the driver's": {
			[]*resourcev1.ResourceSlice{slice("gpu.example.com", 1, device("gpu-0", "", "gpu.example.com/model", "L4"))},
			[]GPU{{Driver: "gpu.example.com", Pool: "node-1", Name: "gpu-0", Model: "L4"}},
		},
		"a network's, a virtual machine's and one that overlaps": {
			[]*resourcev1.ResourceSlice{
				slice("dra.net", 1, device("eth0", "", "model", "ConnectX")),
				slice("gpu.nvidia.com", 1, device("vfio-0", "", "type", "vfio"), changed(device("mig-0", "", "type", "mig"), func(d *resourcev1.Device) {
					d.ConsumesCounters = make([]resourcev1.DeviceCounterConsumption, 1)
				})),
			}, nil,
		},
		"an older generation": {
			[]*resourcev1.ResourceSlice{slice(Driver, 1, ours("a", "GPU-a", 0), ours("b", "GPU-b", 1)), slice(Driver, 2, ours("b", "GPU-b", 0))},
			[]GPU{{Driver: Driver, Pool: "node-1", Name: "b", UUID: "GPU-b", Model: "A100", MemoryMiB: 81920, Shared: true}},
		},
		"unhealthy, and tainted by somebody": {
			[]*resourcev1.ResourceSlice{slice(Driver, 1,
				changed(ours("a", "GPU-a", 0), func(d *resourcev1.Device) {
					why := "it fell off the bus"
					d.Attributes["unhealthy"] = resourcev1.DeviceAttribute{StringValue: &why}
				}),
				changed(ours("b", "GPU-b", 1), func(d *resourcev1.Device) {
					d.Taints = append(d.Taints, resourcev1.DeviceTaint{Key: "example.com/repair", Effect: resourcev1.DeviceTaintEffectNoExecute})
				}))},
			[]GPU{
				{Driver: Driver, Pool: "node-1", Name: "a", UUID: "GPU-a", Model: "A100", MemoryMiB: 81920, Shared: true, Unhealthy: "it fell off the bus"},
				{Driver: Driver, Pool: "node-1", Name: "b", UUID: "GPU-b", Index: 1, Model: "A100", MemoryMiB: 81920, Shared: true, Unhealthy: "it has the device taint example.com/repair"},
			},
		},
		"without consumable capacity": { // as servers before 1.36 keep it
			[]*resourcev1.ResourceSlice{slice(Driver, 1, changed(ours("a", "GPU-a", 0), func(d *resourcev1.Device) { d.AllowMultipleAllocations = nil }))},
			[]GPU{{Driver: Driver, Pool: "node-1", Name: "a", UUID: "GPU-a", Model: "A100", MemoryMiB: 81920}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Of(c.slices)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// While a driver publishes a pool anew, slice by slice, the pool is what it was.
func TestAPoolThatIsPublishedAnew(t *testing.T) {
	part := func(name string, generation, of int64, devices ...string) *resourcev1.ResourceSlice {
		s := slice(Driver, generation)
		s.Name, s.Spec.Pool.ResourceSliceCount = name, of
		for i, d := range devices {
			s.Spec.Devices = append(s.Spec.Devices, ours(d, "GPU-"+d, int64(i)))
		}
		return s
	}
	other := part("other", 7, 1, "x")
	other.Spec.Pool.Name = "other"
	stands := []*resourcev1.ResourceSlice{part("1", 1, 2, "a"), part("2", 1, 2, "b")}
	for name, c := range map[string]struct {
		before, now []*resourcev1.ResourceSlice
		want        string
	}{
		"whole":                                {nil, stands, "ab"},
		"half of the first one":                {nil, stands[:1], ""},
		"half, beside another pool":            {nil, []*resourcev1.ResourceSlice{stands[0], other}, "x"},
		"the first of three is of the next":    {stands, []*resourcev1.ResourceSlice{part("1", 2, 3, "a"), stands[1]}, "ab"},
		"one is gone":                          {stands, stands[:1], "ab"},
		"two of three are of the next":         {stands, []*resourcev1.ResourceSlice{part("1", 2, 3, "a"), part("3", 2, 3, "c")}, "ab"},
		"all three are":                        {stands, []*resourcev1.ResourceSlice{part("1", 2, 3, "a"), part("2", 2, 3, "b"), part("3", 2, 3, "c")}, "abc"},
		"the next is whole, the last still is": {stands, append([]*resourcev1.ResourceSlice{part("3", 2, 1, "c")}, stands...), "c"},
		"the next is half, the last is whole":  {nil, append([]*resourcev1.ResourceSlice{part("3", 2, 2, "c")}, stands...), "ab"},
		"it has no slices any more":            {stands, []*resourcev1.ResourceSlice{other}, "x"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, s := range Whole(c.before, c.now) {
				for i := range s.Spec.Devices {
					got += s.Spec.Devices[i].Name
				}
			}
			if got != c.want {
				t.Errorf("it has %q, want %q", got, c.want)
			}
		})
	}
}

func TestID(t *testing.T) {
	named, nameless := GPU{Pool: "node-1", Name: "gpu-0", UUID: "GPU-0"}, GPU{Pool: "node-1", Name: "gpu-0"}
	if named.ID() != "GPU-0" || nameless.ID() != "node-1/gpu-0" {
		t.Errorf("they are called %s and %s", named.ID(), nameless.ID())
	}
}

// What is allocated is read back as it was given, by whoever prepares it.
func TestAllocation(t *testing.T) {
	shared := GPU{Driver: Driver, Pool: "node-1", Name: "a", UUID: "GPU-a", MemoryMiB: 81920, Shared: true}
	whole := GPU{Driver: "gpu.nvidia.com", Pool: "node-1", Name: "gpu-0", UUID: "GPU-0", MemoryMiB: 81920}
	for name, c := range map[string]struct {
		gpu           GPU
		share         *v1alpha1.GPUShare
		milli, memory int64
		fails         bool
	}{
		"a part":                      {gpu: shared, share: &v1alpha1.GPUShare{Milli: 250, MemoryMiB: 20480}, milli: 250, memory: 20480},
		"all of one that is shared":   {gpu: shared, milli: 1000, memory: 81920},
		"one that is not":             {gpu: whole, milli: 1000},
		"a part of one that is whole": {gpu: whole, share: &v1alpha1.GPUShare{Milli: 250}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Allocation("node-1", []GPU{c.gpu}, c.share)
			if (err != nil) != c.fails {
				t.Fatalf("error %v", err)
			}
			if c.fails {
				return
			}
			r := &got.Devices.Results[0]
			if milli, memory := Part(r); milli != c.milli || memory != c.memory {
				t.Errorf("%dm and %d MiB", milli, memory)
			}
			if (r.ShareID != nil) != c.gpu.Shared || r.Driver != c.gpu.Driver || r.Device != c.gpu.Name || r.Request != Request {
				t.Errorf("%+v", r)
			}
			if at := got.NodeSelector.NodeSelectorTerms[0].MatchFields[0]; at.Key != "metadata.name" || at.Values[0] != "node-1" {
				t.Errorf("it is for %+v", at)
			}
		})
	}
}

func TestReserved(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}}
	claim := Claim(pod, "a-x", 2, nil)
	if claim.Spec.Devices.Requests[0].Exactly.Count != 2 || !metav1.IsControlledBy(claim, pod) || Reserved(claim, "1") {
		t.Errorf("%+v", claim)
	}
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{UID: "1"}}
	if Reserved(claim, "1") {
		t.Error("reserved without an allocation")
	}
	claim.Status.Allocation = &resourcev1.AllocationResult{}
	if !Reserved(claim, "1") || Reserved(claim, "2") {
		t.Error("it is reserved for pod 1, and for no other")
	}
}
