package snapshot

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/inventory"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot/conversion"
)

// namedSlice is a slice of a node with GPUs of one model.
func namedSlice(name, node, driver, model string, shared bool, uuids ...string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{Driver: driver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}}}
	for i, uuid := range uuids {
		index := int64(i)
		d := resourcev1.Device{
			Name:       uuid,
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"uuid": {StringValue: &uuid}, "model": {StringValue: &model}, "index": {IntValue: &index}},
			Capacity:   map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}, "compute": {Value: resource.MustParse("1k")}},
		}
		if shared {
			d.AllowMultipleAllocations = &shared
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}

func TestNamedByDrivers(t *testing.T) {
	owned := map[string]string{v1alpha1.LabelOwned: "true"}
	two := []scheduling.Device{{UUID: "u0", Model: "A100", MemoryMiB: 81920}, {UUID: "u1", Index: 1, Model: "A100", MemoryMiB: 81920}}
	for name, c := range map[string]struct {
		labels map[string]string
		counts int64
		parts  []*resourcev1.ResourceSlice
		want   scheduling.Node
	}{
		"Muster's driver":     {owned, 0, []*resourcev1.ResourceSlice{namedSlice("s", "a", "gpu.muster.dev", "A100", true, "u0", "u1")}, scheduling.Node{Claims: true, Devices: two}},
		"another's":           {owned, 0, []*resourcev1.ResourceSlice{namedSlice("s", "a", "gpu.nvidia.com", "A100", false, "u0", "u1")}, scheduling.Node{Claims: true, Whole: true, Devices: two}},
		"beside a plugin":     {owned, 2, []*resourcev1.ResourceSlice{namedSlice("s", "a", "gpu.muster.dev", "A100", true, "u0", "u1")}, scheduling.Node{Claims: true, Devices: two}},
		"not owned":           {nil, 0, []*resourcev1.ResourceSlice{namedSlice("s", "a", "gpu.muster.dev", "A100", true, "u0", "u1")}, scheduling.Node{Claims: true, Unowned: []scheduling.ModelCount{{Model: "A100", Count: 2}}}},
		"a network's":         {owned, 0, []*resourcev1.ResourceSlice{namedSlice("s", "a", "net.example.com", "A100", true, "u0")}, scheduling.Node{Counts: true}},
		"an empty one, ready": {owned, 0, []*resourcev1.ResourceSlice{namedSlice("s", "a", "gpu.muster.dev", "A100", true)}, scheduling.Node{Counts: true}},
	} {
		t.Run(name, func(t *testing.T) {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: c.labels}}
			n.Status.Allocatable = corev1.ResourceList{v1alpha1.ResourceGPU: *resource.NewQuantity(c.counts, resource.DecimalSI)}
			c.want.Name, c.want.Labels = "a", c.labels
			got := conversion.GPUResources(nil).Node(n, c.parts...)
			got.Domains = scheduling.Domains{}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A slice that comes, changes and goes is its node's change, whichever of the
// two is shown first.
func TestSlicesChangeTheirNode(t *testing.T) {
	m := newMirror()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{v1alpha1.LabelOwned: "true"}}}
	devices := func() int {
		t.Helper()
		nodes := m.take(copied{}, false).nodes
		if len(nodes) != 1 {
			t.Fatalf("%d nodes have changed, want 1", len(nodes))
		}
		return len(nodes[0].Devices)
	}
	m.shown(namedSlice("s", "a", "gpu.muster.dev", "A100", true, "u0"))
	m.shown(n)
	if got := devices(); got != 1 {
		t.Errorf("%d GPUs, want 1", got)
	}
	m.shown(namedSlice("s", "a", "gpu.muster.dev", "A100", true, "u0", "u1"))
	if got := devices(); got != 2 {
		t.Errorf("%d GPUs, want 2", got)
	}
	m.gone(namedSlice("s", "a", "gpu.muster.dev", "A100", true, "u0", "u1"))
	if got := devices(); got != 0 {
		t.Errorf("%d GPUs, want none", got)
	}
}

// A node keeps its GPUs while its driver publishes them anew, slice by slice.
func TestANodeKeepsItsGPUsWhileTheyArePublishedAnew(t *testing.T) {
	m := newMirror()
	m.shown(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{v1alpha1.LabelOwned: "true"}}})
	show := func(name string, generation, of int64, uuids ...string) {
		s := namedSlice(name, "a", "gpu.muster.dev", "A100", true, uuids...)
		s.Spec.Pool.Generation, s.Spec.Pool.ResourceSliceCount = generation, of
		m.shown(s)
	}
	for _, step := range []struct {
		name       string
		generation int64
		of         int64
		uuids      []string
		want       int
	}{
		{"1", 1, 2, []string{"u0", "u1"}, 0},
		{"2", 1, 2, []string{"u2"}, 3},
		{"1", 2, 3, []string{"u0", "u1"}, 3},
		{"2", 2, 3, []string{"u2"}, 3},
		{"3", 2, 3, []string{"u3"}, 4},
	} {
		show(step.name, step.generation, step.of, step.uuids...)
		if got := len(inventory.Of(m.whole["a"])); got != step.want {
			t.Errorf("after slice %s of generation %d it has %d GPUs, want %d", step.name, step.generation, got, step.want)
		}
	}
	m.gone(namedSlice("3", "a", "gpu.muster.dev", "A100", true))
	if got := len(inventory.Of(m.whole["a"])); got != 4 {
		t.Errorf("after one slice is gone it has %d GPUs", got)
	}
	for _, name := range []string{"1", "2"} {
		m.gone(namedSlice(name, "a", "gpu.muster.dev", "A100", true))
	}
	if got := len(m.whole); got != 0 {
		t.Errorf("after all are gone %d nodes have some", got)
	}
}
