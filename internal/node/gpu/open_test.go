package gpu

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestMaker finds the driver's program where the device file for memory is
// missing, and leaves alone what is there.
func TestMaker(t *testing.T) {
	root := t.TempDir()
	for _, step := range []struct{ makes, tree, want string }{
		{"etc/hostname", "/", ""},
		{"usr/local/nvidia/bin/nvidia-modprobe", "/", "/usr/local/nvidia/bin/nvidia-modprobe"},
		{"usr/bin/nvidia-modprobe", "/", "/usr/bin/nvidia-modprobe"},
		{"run/nvidia/driver/usr/local/bin/nvidia-modprobe", "/run/nvidia/driver", "/usr/local/bin/nvidia-modprobe"},
		{"dev/nvidia-uvm", "/", ""},
	} {
		write(t, filepath.Join(root, step.makes))
		if got := maker(root, step.tree); got != step.want {
			t.Errorf("with %s too it is %q, want %q", step.makes, got, step.want)
		}
	}
}

// TestADriverThatComesLater has the driver be brought by a container, as NVIDIA's
// GPU operator does, after it was looked for: its program runs in the container's
// files, and finds its libraries.
func TestADriverThatComesLater(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root runs programs in another root")
	}
	root := t.TempDir()
	source, err := Open(t.Context(), Options{Root: root, Await: true, LockDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	if source.Name() != "none" {
		t.Fatalf("below %s there is %s: this machine's own driver is not what is tested", root, source.Name())
	}
	if devices, err := source.Devices(t.Context()); len(devices) != 0 || err != nil {
		t.Fatalf("without a driver there are %v, %v", devices, err)
	}
	tree := filepath.Join(root, "run/nvidia/driver")
	write(t, filepath.Join(tree, "usr/lib64/libcuda.so.580.1.2"))
	write(t, filepath.Join(tree, "dev/nvidia4"))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(tree, "usr/bin/nvidia-smi"), "./testdata/nvidia-smi")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	devices, err := source.Devices(t.Context())
	if err != nil || len(devices) != 1 || devices[0].Node != "/dev/nvidia4" || devices[0].Unhealthy != "" {
		t.Fatalf("with a driver there are %+v, %v", devices, err)
	}
	if err := os.Remove(filepath.Join(tree, "dev/nvidia4")); err != nil {
		t.Fatal(err)
	}
	if devices, err = source.Devices(t.Context()); err != nil || len(devices) != 1 || devices[0].Unhealthy == "" {
		t.Errorf("without its file there are %+v, %v", devices, err)
	}
}
