package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/node/gpu"
)

// TestNumbers: containers that can open no other GPUs are told numbers, others UUIDs;
// the description of a driver that comes later says the same.
func TestNumbers(t *testing.T) {
	source, gpus := pretend(t, "4xA100")
	devices, err := source.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range devices {
		devices[i].Simulated, devices[i].Node = false, "/dev/nvidia"+string(rune('0'+i))
		if err := os.WriteFile(filepath.Join(root, devices[i].Node), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	uuids := devices[1].UUID + "," + devices[3].UUID
	for name, c := range map[string]struct {
		edit func(*resourcev1.ResourceClaim)
		want []string
	}{
		"alone": {func(*resourcev1.ResourceClaim) {}, []string{"CUDA_VISIBLE_DEVICES=0,1", "NVIDIA_VISIBLE_DEVICES=" + uuids, gpu.OrderVariable + "=PCI_BUS_ID"}},
		"not said": {func(c *resourcev1.ResourceClaim) { c.Annotations = nil },
			[]string{"CUDA_VISIBLE_DEVICES=" + uuids, "NVIDIA_VISIBLE_DEVICES=" + uuids}},
		"said by others": {func(c *resourcev1.ResourceClaim) { c.Labels = nil },
			[]string{"CUDA_VISIBLE_DEVICES=" + uuids, "NVIDIA_VISIBLE_DEVICES=" + uuids}},
		"of two pods": {func(c *resourcev1.ResourceClaim) {
			c.Status.ReservedFor = append(c.Status.ReservedFor, c.Status.ReservedFor[0])
		},
			[]string{"CUDA_VISIBLE_DEVICES=" + uuids, "NVIDIA_VISIBLE_DEVICES=" + uuids}},
	} {
		t.Run(name, func(t *testing.T) {
			claim := allocated(t, strings.ReplaceAll(name, " ", "-"), nil, gpus[1], gpus[3])
			claim.Labels = map[string]string{v1alpha1.LabelGang: ""} // of a lone pod
			claim.Annotations = map[string]string{v1alpha1.AnnotationGPUsAlone: "true"}
			claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "p"}}
			c.edit(claim)
			d := testDriver(t, source, claim)
			d.root = root
			d.see(devices)
			env, err := prepared(t, d, claim)
			if diff := cmp.Diff(c.want, env); err != nil || diff != "" {
				t.Errorf("%v: %s", err, diff)
			}
			edits := d.described(t, claim).Devices[0].ContainerEdits
			var files []string
			for _, n := range edits.DeviceNodes {
				files = append(files, n.Path)
			}
			if !slices.Equal(files, []string{"/dev/nvidia1", "/dev/nvidia3"}) {
				t.Errorf("it has the device files %v", files)
			}
			if err := d.redescribe(); err != nil {
				t.Fatal(err)
			}
			if again := d.described(t, claim).Devices[0].ContainerEdits.Env; !slices.Equal(again, env) {
				t.Errorf("described anew it has %v", again)
			}
		})
	}
}
