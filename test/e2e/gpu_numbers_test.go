//go:build e2e && gpu

package e2e

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// named is a program that says CUDA_VISIBLE_DEVICES, how many GPUs CUDA sees, and the
// UUID of the first. It takes variables away that its arguments name, and has nvidia-smi
// make the device files that it misses, as root can. It ends with 9 if it sees no GPU.
const named = `
import ctypes, os, subprocess, sys, uuid
said = os.environ.get("CUDA_VISIBLE_DEVICES")
for name in sys.argv[1:]:
    os.environ.pop(name, None)
subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *args):
    code = getattr(cuda, name)(*args)
    if code:
        sys.exit(9 if code == 100 else "%s: %d" % (name, code))
count, device, found = ctypes.c_int(), ctypes.c_int(), (ctypes.c_ubyte * 16)()
call("cuInit", 0)
call("cuDeviceGetCount", ctypes.byref(count))
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDeviceGetUuid", ctypes.byref(found), device)
print("told <%s>, sees %d, first GPU-%s" % (said, count.value, uuid.UUID(bytes=bytes(found))), flush=True)
`

// TestGPUNumbers: where a job can open its own GPUs only, it is told numbers, and CUDA
// finds its GPUs by these; where it could open others, it is told UUIDs. A job without a
// GPU finds none in the isolated tier, whatever it does with variables and device files.
func TestGPUNumbers(t *testing.T) {
	d := onlyDevice(t)
	inRealTiers(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx := m.Namespace(t), deadline(t, 3*time.Minute)
		run := func(gpus string, code int, words string, unset ...string) {
			t.Helper()
			args := append([]string{"-n", ns, "run", "--gpus", gpus, "--code", "none", "--backoff-limit", "0", "--", "python3", "-c", named}, unset...)
			if gpus == "0" {
				args = append(args[:3:3], args[5:]...)
			}
			expect(t, m.Run(ctx, args...), code, words)
		}
		isolated := strings.HasSuffix(t.Name(), "/isolated")
		told := d.uuid
		if isolated {
			told = "0"
		}
		sees := "told <" + told + ">, sees 1, first " + d.uuid
		run("1", 0, sees)
		run("1", 0, sees, "CUDA_DEVICE_ORDER")
		if isolated {
			run("1", 0, sees, "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
			run("0", 9, "", "CUDA_VISIBLE_DEVICES")
		}
	})
}

// TestGPUDeepSpeed starts DeepSpeed's own launcher in the isolated tier.
func TestGPUDeepSpeed(t *testing.T) {
	d := onlyDevice(t)
	if err := exec.CommandContext(t.Context(), "python3", "-c", "import deepspeed").Run(); err != nil {
		t.Skip("python3 has no DeepSpeed")
	}
	m := own(t, "--tier", "isolated")
	ns, ctx := m.Namespace(t), deadline(t, 3*time.Minute)
	dir := folder(t, map[string]string{"train.py": `
import os, torch
x = torch.ones(4, device="cuda:%s" % os.environ["LOCAL_RANK"])
print("rank %s of %s on GPU-%s: %d" % (os.environ["RANK"], os.environ["WORLD_SIZE"], torch.cuda.get_device_properties(0).uuid, x.sum().item()), flush=True)
`})
	for _, command := range [][]string{{"deepspeed", "train.py"}, {"deepspeed", "--num_gpus", "1", "train.py"}} {
		r := m.RunIn(ctx, dir, append([]string{"-n", ns, "run", "--gpus", "1", "--"}, command...)...)
		expect(t, r, 0, "rank 0 of 1 on "+d.uuid+": 4")
		if strings.Contains(r.Stderr, "warning: deepspeed") {
			t.Errorf("it works, and muster run says %s", r.Stderr)
		}
	}
}
