//go:build e2e && cluster && gpu

package e2e

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/test/cluster"
)

// TestGPUInAnImage has jobs in an image, of this machine's Python and nothing of
// its driver, take a real GPU: they find the driver's libraries of the machine,
// and see the GPU only where they were given it.
func TestGPUInAnImage(t *testing.T) {
	onlyDevice(t)
	ctx := deadline(t, 4*time.Minute)
	base, err := exec.CommandContext(ctx, "python3", "-c", "import os, sys; print(os.path.realpath(getattr(sys, '_base_executable', sys.executable)))").Output()
	if err != nil {
		t.Fatal(err)
	}
	image, err := cluster.Python(ctx, strings.TrimSpace(string(base)))
	if err != nil {
		t.Fatal(err)
	}
	containerd, err := cluster.StartRuntime(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := containerd.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := containerd.Import(ctx, "muster", image); err != nil {
		t.Fatal(err)
	}
	for _, x := range tiers {
		t.Run(x.name, func(t *testing.T) {
			m := own(t, "--tier", x.name, "--containerd", containerd.Socket)
			ns := m.Namespace(t)
			in := []string{"-n", ns, "run", "--code", "none", "--image", cluster.PythonImage}
			script := []string{"--", "sh", "-c", `python3 -c "$1" 512 /tmp/said / && cat /tmp/said && nvidia-smi -L`, "sh", takes}
			expect(t, m.Run(ctx, append(append(in, "--gpus", "1"), script...)...), 0, "1 GPUs ", onlyDevice(t).uuid)
			expect(t, m.Run(ctx, append(append(in, "--gpus", "250m"), script...)...), 0, "1 GPUs ")
			expect(t, m.Run(ctx, append(in, script...)...), 9)
			expect(t, m.Run(ctx, append(in, "--", "sh", "-c", "! ls /dev/nvidia[0-9]*")...), 0)
		})
	}
}
