package agent

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	cdi "tags.cncf.io/container-device-interface/specs-go"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/inventory"
	"github.com/muster-dev/muster/internal/node/gpu"
)

// pretend are simulated GPUs, and what slices say of them.
func pretend(t *testing.T, declaration string) (gpu.Source, []inventory.GPU) {
	t.Helper()
	source, err := gpu.Open(t.Context(), gpu.Options{Simulate: declaration, Host: "node-1", LockDir: filepath.Join(t.TempDir(), "locks")})
	if err != nil {
		t.Fatal(err)
	}
	devices, err := source.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	published := resources("node-1", devices).Pools["node-1"]
	var parts []*resourcev1.ResourceSlice
	for _, s := range published.Slices {
		parts = append(parts, &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: inventory.Driver, Pool: resourcev1.ResourcePool{Name: "node-1", ResourceSliceCount: int64(len(published.Slices))}, Devices: s.Devices}})
	}
	return source, inventory.Of(parts)
}

func testDriver(t *testing.T, source gpu.Source, claims ...*resourcev1.ResourceClaim) *driver {
	t.Helper()
	set := fake.NewClientset()
	for _, c := range claims {
		if _, err := set.ResourceV1().ResourceClaims(c.Namespace).Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	cdiDir := filepath.Join(dir, "cdi")
	if err := os.Mkdir(cdiDir, 0o755); err != nil {
		t.Fatal(err)
	}
	d, err := newDriver(t.Context(), Options{Node: "node-1", CDIDir: cdiDir, Log: slog.New(slog.DiscardHandler)}, source, set, dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// allocated is a claim that was given GPUs.
func allocated(t *testing.T, uid string, share *v1alpha1.GPUShare, gpus ...inventory.GPU) *resourcev1.ResourceClaim {
	t.Helper()
	to, err := inventory.Allocation("node-1", gpus, share)
	if err != nil {
		t.Fatal(err)
	}
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "claim-" + uid, UID: types.UID(uid)},
		Status:     resourcev1.ResourceClaimStatus{Allocation: to},
	}
}

// described is what the container runtime reads of a claim.
func (d *driver) described(t *testing.T, claim *resourcev1.ResourceClaim) cdi.Spec {
	t.Helper()
	raw, err := os.ReadFile(d.specs.path(claim.UID))
	if err != nil {
		t.Fatal(err)
	}
	var spec cdi.Spec
	if err := json.Unmarshal(raw, &spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

// prepared prepares one claim and returns what its containers get.
func prepared(t *testing.T, d *driver, claim *resourcev1.ResourceClaim) ([]string, error) {
	t.Helper()
	results, err := d.PrepareResourceClaims(t.Context(), []*resourcev1.ResourceClaim{claim})
	if err != nil {
		t.Fatal(err)
	}
	r := results[claim.UID]
	if r.Err != nil {
		return nil, r.Err
	}
	if len(r.Devices) != len(claim.Status.Allocation.Devices.Results) || !slices.Equal(r.Devices[0].CDIDeviceIDs, []string{cdiKind + "=" + string(claim.UID)}) {
		t.Errorf("devices %+v", r.Devices)
	}
	spec := d.described(t, claim)
	if spec.Kind != cdiKind || len(spec.Devices) != 1 || spec.Devices[0].Name != string(claim.UID) {
		t.Errorf("described as %+v", spec)
	}
	return spec.Devices[0].ContainerEdits.Env, nil
}

func TestPrepare(t *testing.T) {
	source, gpus := pretend(t, "2xA100")
	quarter := &v1alpha1.GPUShare{Milli: 250, MemoryMiB: 20480}
	part, whole := allocated(t, "part", quarter, gpus[0]), allocated(t, "whole", nil, gpus[1])
	d := testDriver(t, source, part, whole)

	env, err := prepared(t, d, part)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"MUSTER_GPU_MILLI=250", "MUSTER_GPU_MEMORY_MIB=20480", "MUSTER_GPU_MEMORY_FRACTION=0.25", "CUDA_VISIBLE_DEVICES=", "NVIDIA_VISIBLE_DEVICES=void", "MUSTER_GPUS=" + gpus[0].UUID + "=A100"}
	if diff := cmp.Diff(want, env); diff != "" {
		t.Error(diff)
	}
	if env, err = prepared(t, d, whole); err != nil || !slices.Contains(env, "MUSTER_GPUS="+gpus[1].UUID+"=A100") || strings.Contains(strings.Join(env, " "), "MUSTER_GPU_MILLI") {
		t.Errorf("of a whole one: %v, %v", env, err)
	}
	// The driver says what is enforced, once.
	said, err := d.set.ResourceV1().ResourceClaims("team").Get(t.Context(), part.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(said.Status.Devices) != 1 || said.Status.Devices[0].Conditions[0].Message != "250m (20480 MiB), not enforced: the GPU is simulated" {
		t.Errorf("it says %+v", said.Status.Devices)
	}
	// It may be asked for twice, and for the end twice.
	if _, err := prepared(t, d, part); err != nil {
		t.Errorf("a second time: %v", err)
	}
	for range 2 {
		ended, err := d.UnprepareResourceClaims(t.Context(), []kubeletplugin.NamespacedObject{{UID: part.UID}, {UID: whole.UID}})
		if err != nil || ended[part.UID] != nil || ended[whole.UID] != nil {
			t.Fatalf("%v, %v", ended, err)
		}
	}
	for _, dir := range []string{d.specs.dir, d.records.dir} {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("in %s there is %v, %v", dir, left, err)
		}
	}
}

// Whatever an allocation says, a GPU is not given out beyond what it has, also
// by an agent that was started again meanwhile.
func TestNeverTwice(t *testing.T) {
	source, gpus := pretend(t, "2xA100:40Gi")
	share := func(milli int32, mib int64) *v1alpha1.GPUShare {
		return &v1alpha1.GPUShare{Milli: milli, MemoryMiB: mib}
	}
	first := testDriver(t, source)
	if _, err := prepared(t, first, allocated(t, "half", share(500, 20480), gpus[0])); err != nil {
		t.Fatal(err)
	}
	again, err := newDriver(t.Context(), Options{Node: "node-1", CDIDir: first.specs.dir, Log: slog.New(slog.DiscardHandler)}, source, first.set, filepath.Dir(first.records.dir))
	if err != nil {
		t.Fatal(err)
	}
	again.patience = 0
	for name, c := range map[string]struct {
		claim *resourcev1.ResourceClaim
		says  string
	}{
		"all of it":            {allocated(t, "a", nil, gpus[0]), "team/claim-half"},
		"more than is left":    {allocated(t, "b", share(501, 1), gpus[0]), "team/claim-half"},
		"more memory":          {allocated(t, "c", share(1, 20481), gpus[0]), "team/claim-half"},
		"one that is not here": {allocated(t, "d", nil, inventory.GPU{Driver: inventory.Driver, Pool: "node-1", Name: "gpu-9"}), "does not have"},
		"what is left":         {allocated(t, "e", share(500, 20480), gpus[0]), ""},
		"the other":            {allocated(t, "f", nil, gpus[1]), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := prepared(t, again, c.claim)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("error %v, want %q", err, c.says)
			}
			if _, err := again.UnprepareResourceClaims(t.Context(), []kubeletplugin.NamespacedObject{{UID: c.claim.UID}}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestResources(t *testing.T) {
	many := make([]gpu.Device, 130)
	for i := range many {
		many[i] = gpu.Device{Index: i, UUID: "not a name", Model: "A100", Unhealthy: strings.Repeat("x", 100)}
	}
	pool := resources("node-1", many).Pools["node-1"]
	if len(pool.Slices) != 3 || len(pool.Slices[2].Devices) != 2 || pool.Slices[2].Devices[1].Name != "gpu-129" {
		t.Errorf("%d slices", len(pool.Slices))
	}
	if why := *pool.Slices[0].Devices[0].Attributes["unhealthy"].StringValue; len(why) != longestText {
		t.Errorf("an attribute of %d characters", len(why))
	}
	if none := resources("node-1", nil).Pools["node-1"]; len(none.Slices) != 1 {
		t.Error("a driver without devices has no slice that shows that it is there")
	}
}

func TestReachable(t *testing.T) {
	got := reachable([]gpu.Device{{UUID: "a", Node: "/dev/nvidia0"}, {UUID: "b"}, {UUID: "c", Simulated: true}, {UUID: "d", Unhealthy: "worse"}})
	for i, want := range []string{"", "the driver does not tell which file below /dev it is", "", "worse"} {
		if got[i].Unhealthy != want {
			t.Errorf("%s is unhealthy by %q, want %q", got[i].UUID, got[i].Unhealthy, want)
		}
	}
}

// A real driver's libraries are mounted from below the root of the machine.
func TestLibraries(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "usr/lib64/libcuda.so.550.90.07")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := libraries(root); len(got) == 0 {
		t.Fatal("a library is not mounted")
	}
	if diff := cmp.Diff(gpu.DriverFiles(root), bindings(libraries(root))); diff != "" {
		t.Error(diff)
	}
}

// A device file is given from where a container brings the driver, under the name
// that programs know. A claim waits while there is none, and has another version once
// that is there.
func TestADriverIsReplaced(t *testing.T) {
	source, gpus := pretend(t, "1xA100")
	d, claim := testDriver(t, source), allocated(t, "whole", nil, gpus[0])
	d.root = t.TempDir()
	d.see([]gpu.Device{{UUID: gpus[0].UUID, Node: "/dev/nvidia0"}})
	tree := filepath.Join(d.root, "run/nvidia/driver")
	install := func(version string) {
		t.Helper()
		for _, path := range []string{"dev/nvidia0", "dev/nvidiactl", "usr/lib64/libcuda.so." + version} {
			path = filepath.Join(tree, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	gone := func() {
		t.Helper()
		if err := os.RemoveAll(tree); err != nil {
			t.Fatal(err)
		}
	}
	described := func(version string) {
		t.Helper()
		edits := d.described(t, claim).Devices[0].ContainerEdits
		want := []*cdi.DeviceNode{
			{Path: "/dev/nvidia0", HostPath: "/run/nvidia/driver/dev/nvidia0"},
			{Path: "/dev/nvidiactl", HostPath: "/run/nvidia/driver/dev/nvidiactl"},
		}
		if diff := cmp.Diff(want, edits.DeviceNodes); diff != "" {
			t.Error(diff)
		}
		if from := "/run/nvidia/driver/usr/lib64/libcuda.so." + version; len(edits.Mounts) == 0 || edits.Mounts[0].HostPath != from {
			t.Errorf("mounted is %+v, want %s", edits.Mounts, from)
		}
	}
	if _, err := prepared(t, d, claim); err == nil || !strings.Contains(err.Error(), "/dev/nvidia0") {
		t.Fatalf("without a driver: %v", err)
	}
	install("550.1")
	if _, err := prepared(t, d, claim); err != nil {
		t.Fatal(err)
	}
	described("550.1")
	for _, version := range []string{"", "580.2"} {
		gone()
		if version != "" {
			install(version)
		}
		if err := d.redescribe(); err != nil {
			t.Fatal(err)
		}
		if version == "" {
			version = "550.1"
		}
		described(version)
	}
}

func bindings(mounts []*cdi.Mount) []gpu.File {
	var out []gpu.File
	for _, m := range mounts {
		out = append(out, gpu.File{From: m.HostPath, To: m.ContainerPath})
	}
	return out
}

// A claim whose GPU containers of another still have is prepared once those are gone,
// while others come and go; the kubelet would ask again only after a minute.
func TestWaitsUntilFree(t *testing.T) {
	source, gpus := pretend(t, "2xA100")
	d := testDriver(t, source)
	old, next, other := allocated(t, "old", nil, gpus[0]), allocated(t, "next", nil, gpus[0]), allocated(t, "other", nil, gpus[1])
	if _, err := prepared(t, d, old); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		results, err := d.PrepareResourceClaims(t.Context(), []*resourcev1.ResourceClaim{next})
		answer <- errors.Join(err, results[next.UID].Err)
	}()
	if _, err := prepared(t, d, other); err != nil {
		t.Errorf("another GPU: %v", err)
	}
	for _, claim := range []*resourcev1.ResourceClaim{other, old} {
		select {
		case err := <-answer:
			t.Fatalf("answered before claim %s was gone: %v", claim.Name, err)
		default:
		}
		ended, err := d.UnprepareResourceClaims(t.Context(), []kubeletplugin.NamespacedObject{{UID: claim.UID}})
		if err != nil || ended[claim.UID] != nil {
			t.Fatalf("%v, %v", err, ended)
		}
	}
	if err := <-answer; err != nil {
		t.Errorf("once it was free: %v", err)
	}
	// It is told in words who has it where that lasts.
	d.patience = 0
	if _, err := prepared(t, d, old); err == nil || !strings.Contains(err.Error(), "team/claim-next") {
		t.Errorf("of one that stays: %v", err)
	}
}
