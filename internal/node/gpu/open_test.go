package gpu

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMaker finds the driver's program where the device file for memory is
// missing, and leaves alone what is there.
func TestMaker(t *testing.T) {
	root := t.TempDir()
	write := func(path string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct{ makes, want string }{
		{"etc/hostname", ""},
		{"usr/local/nvidia/bin/nvidia-modprobe", "/usr/local/nvidia/bin/nvidia-modprobe"},
		{"usr/bin/nvidia-modprobe", "/usr/bin/nvidia-modprobe"},
		{"dev/nvidia-uvm", ""},
	} {
		write(step.makes)
		if got := maker(root); got != step.want {
			t.Errorf("with %s too it is %q, want %q", step.makes, got, step.want)
		}
	}
}
