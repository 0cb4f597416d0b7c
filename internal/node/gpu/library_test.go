package gpu

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDriverFiles has a real driver's libraries be found wherever drivers put
// them, and named as programs load them where programs of images look.
func TestDriverFiles(t *testing.T) {
	places := imageDirs()
	for dir, smi := range map[string]string{
		"/usr/lib64": "/usr/bin", "/usr/lib/x86_64-linux-gnu": "/usr/bin", "/usr/lib": "/opt/bin", "/usr/local/nvidia/lib64": "/usr/local/nvidia/bin",
		"/home/kubernetes/bin/nvidia/lib64": "/home/kubernetes/bin/nvidia/bin", "/run/nvidia/driver/usr/lib64": "/run/nvidia/driver/usr/bin",
	} {
		root := t.TempDir()
		file := func(path ...string) string { return filepath.Join(append([]string{root}, path...)...) }
		for _, path := range []string{
			file(dir, "libcuda.so.550.90.07"), file(dir, "libnvidia-nvvm.so.550.90.07"), file(dir, "libnvidia-ml.so.550.90.07"),
			file(dir, "libc.so.6"), file(dir, "libnvidia-glcore.so.550.90.07"), file(smi, "nvidia-smi"), file("/usr/bin/nvidia-smi"),
		} {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			content := "\x7fELF"
			if path == file("/usr/bin/nvidia-smi") && smi != "/usr/bin" {
				content = "#!/bin/sh\nexec " + smi + "/nvidia-smi\n"
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for name, to := range map[string]string{
			"libcuda.so.1": "libcuda.so.550.90.07", "libnvidia-nvvm.so.4": file(dir, "libnvidia-nvvm.so.550.90.07"), "libcuda.so.9": "libother.so.550.90.07",
		} {
			if err := os.Symlink(to, file(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		want := map[string]string{"/usr/bin/nvidia-smi": smi + "/nvidia-smi"}
		for _, to := range places {
			for name, numbered := range map[string]string{"libcuda": "libcuda.so.1", "libnvidia-nvvm": "libnvidia-nvvm.so.4", "libnvidia-ml": "libnvidia-ml.so.1"} {
				full := name + ".so.550.90.07"
				want[filepath.Join(to, full)], want[filepath.Join(to, numbered)] = filepath.Join(dir, full), filepath.Join(dir, full)
			}
		}
		got := map[string]string{}
		for _, f := range DriverFiles(root) {
			if got[f.To] != "" {
				t.Errorf("%s is there twice", f.To)
			}
			got[f.To] = f.From
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s\n%v", dir, diff, slices.Sorted(maps.Keys(got)))
		}
	}
	// Remains of another driver, elsewhere and beside this one's, are left out.
	root := t.TempDir()
	for _, path := range []string{"usr/lib64/libnvidia-ml.so.535.1.2", "usr/local/nvidia/lib64/libcuda.so.550.90.07", "usr/local/nvidia/lib64/libcuda.so.999.1"} {
		write(t, filepath.Join(root, path))
	}
	if err := os.Symlink("libcuda.so.550.90.07", filepath.Join(root, "usr/local/nvidia/lib64/libcuda.so.1")); err != nil {
		t.Fatal(err)
	}
	// Of drivers in several folders the kernel's is taken.
	later := t.TempDir()
	for _, path := range []string{"usr/lib64/libcuda.so.535.1.2", "run/nvidia/driver/usr/lib64/libcuda.so.550.90.07", "run/nvidia/driver/dev/nvidia-uvm", "dev/nvidia-uvm"} {
		write(t, filepath.Join(later, path))
	}
	if got := driverOf(later); got.tree != "/" {
		t.Errorf("while the kernel says nothing it is in %s", got.tree)
	}
	version := filepath.Join(later, "proc/driver/nvidia/version")
	write(t, version)
	if err := os.WriteFile(version, []byte("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.90.07  Tue Mar  5 22:23:56 UTC 2024\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := driverOf(later); got.tree != "/run/nvidia/driver" || got.dir != "/usr/lib64" {
		t.Errorf("it is in %s of %s", got.dir, got.tree)
	}
	if got := DeviceFile(later, "/dev/nvidia-uvm"); got != "/run/nvidia/driver/dev/nvidia-uvm" {
		t.Errorf("its device file is %s", got)
	}
	for _, f := range DriverFiles(root) {
		if filepath.Base(f.To) == "libcuda.so.1" && filepath.Base(f.From) != "libcuda.so.550.90.07" || filepath.Base(f.From) == "libnvidia-ml.so.535.1.2" {
			t.Errorf("%s is %s", f.To, f.From)
		}
	}
	if got := DriverFiles(t.TempDir()); len(got) != 0 {
		t.Errorf("a machine without a driver has %v", got)
	}
}

// TestDeviceFile finds device files also where a container brings the driver.
func TestDeviceFile(t *testing.T) {
	root := t.TempDir()
	for _, step := range []struct{ makes, want string }{
		{"dev/null", ""},
		{"run/nvidia/driver/dev/nvidia0", "/run/nvidia/driver/dev/nvidia0"},
		{"dev/nvidia0", "/dev/nvidia0"},
	} {
		write(t, filepath.Join(root, step.makes))
		if got := DeviceFile(root, "/dev/nvidia0"); got != step.want {
			t.Errorf("with %s it is %q, want %q", step.makes, got, step.want)
		}
	}
}
