package gpu

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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

// build makes a program of those in testdata.
func build(t *testing.T, name, path string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./testdata/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestADriverThatComesLater has the driver come after it was looked for, in a
// container's files, as by NVIDIA's GPU operator, and where Google has it: its programs
// run where it is, find its libraries, and make the device file that is missing.
func TestADriverThatComesLater(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root runs programs in another root")
	}
	programs := t.TempDir()
	build(t, "nvidia-smi", filepath.Join(programs, "nvidia-smi"))
	build(t, "nvidia-modprobe", filepath.Join(programs, "nvidia-modprobe"))
	for name, at := range map[string]struct{ tree, libraries, programs string }{
		"the operator's": {"run/nvidia/driver", "usr/lib/x86_64-linux-gnu", "usr/bin"},
		"Google's":       {"", "home/kubernetes/bin/nvidia/lib64", "home/kubernetes/bin/nvidia/bin"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			source, err := Open(t.Context(), Options{Root: root, Give: true, Await: true, LockDir: t.TempDir()})
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
			tree := filepath.Join(root, at.tree)
			write(t, filepath.Join(tree, at.libraries, "libcuda.so.580.1.2"))
			write(t, filepath.Join(tree, "dev/nvidia4"))
			if err := os.CopyFS(filepath.Join(tree, at.programs), os.DirFS(programs)); err != nil {
				t.Fatal(err)
			}
			devices, err := source.Devices(t.Context())
			if err != nil || len(devices) != 1 || devices[0].Node != "/dev/nvidia4" || devices[0].Unhealthy != "" {
				t.Fatalf("with a driver there are %+v, %v", devices, err)
			}
			if at := DeviceFile(root, "/dev/nvidia-uvm"); filepath.Join(root, at) != filepath.Join(tree, "dev/nvidia-uvm") {
				t.Errorf("the device file for memory is %q", at)
			}
			// The container goes, and comes again with a /dev that is new.
			if err := os.RemoveAll(filepath.Join(tree, "dev")); err != nil {
				t.Fatal(err)
			}
			if devices, err = source.Devices(t.Context()); err != nil || len(devices) != 1 || devices[0].Unhealthy == "" {
				t.Errorf("without its file there are %+v, %v", devices, err)
			}
			write(t, filepath.Join(tree, "dev/nvidia4"))
			if devices, err = source.Devices(t.Context()); err != nil || len(devices) != 1 || devices[0].Unhealthy != "" || DeviceFile(root, "/dev/nvidia-uvm") == "" {
				t.Errorf("with it again there are %+v, %v", devices, err)
			}
		})
	}
}

// TestMemoryFiles makes the device files that the first program would make as root,
// which it cannot in a container.
func TestMemoryFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes device files")
	}
	dir := t.TempDir()
	list := filepath.Join(dir, "devices")
	for text, says := range map[string]string{
		"Character devices:\n195 nvidia\n": "not loaded",
		"Character devices:\n195 nvidia\n195 nvidiactl\n234 nvidia-uvm\n\nBlock devices:\n  8 sd\n": "",
	} {
		if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := makeMemoryFiles(list, dir); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Fatalf("of %q: %v, want %q", text, err, says)
		}
	}
	for minor, name := range []string{"nvidia-uvm", "nvidia-uvm-tools"} {
		var stat unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, name), &stat); err != nil || stat.Rdev != unix.Mkdev(234, uint32(minor)) || stat.Mode != unix.S_IFCHR|0o666 {
			t.Errorf("%s: mode %o, number %d, %v", name, stat.Mode, stat.Rdev, err)
		}
	}
}
