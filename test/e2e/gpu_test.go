//go:build e2e && gpu

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// takes is a program that takes so many MiB of its first GPU by the driver's own
// interface, writes into a file how many GPUs it sees, and holds them until
// another file is there. It ends with 7 where the driver gives it no more
// memory, and with 9 where it sees no GPU.
const takes = `
import ctypes, os, sys, time
def call(name, *args):
    code = getattr(cuda, name)(*args)
    if code == 2:
        sys.exit(7)
    if code == 100:
        sys.exit(9)
    if code:
        sys.exit("%s: %d" % (name, code))
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as e:
    print(e, flush=True)
    sys.exit(9)
mib, said, until = int(sys.argv[1]), sys.argv[2], sys.argv[3]
count, device, context, memory = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
started = time.time()
call("cuInit", 0)
call("cuDeviceGetCount", ctypes.byref(count))
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(mib << 20))
call("cuMemsetD8_v2", memory, 1, ctypes.c_size_t(mib << 20))
with open(said + ".new", "w") as f:
    f.write("%d GPUs %f" % (count.value, started))
os.rename(said + ".new", said)
while not os.path.exists(until):
    time.sleep(0.01)
call("cuMemsetD8_v2", memory, 2, ctypes.c_size_t(mib << 20))
call("cuCtxSynchronize")
with open(said + ".end", "w") as f:
    f.write("%f" % time.time())
`

// taker is a program that holds memory of a GPU.
type taker struct {
	t           *testing.T
	said, until string
	command     []string
}

func newTaker(t *testing.T, mib int64) taker {
	dir := t.TempDir()
	x := taker{t: t, said: filepath.Join(dir, "said"), until: filepath.Join(dir, "until")}
	x.command = []string{"python3", "-c", takes, strconv.FormatInt(mib, 10), x.said, x.until}
	return x
}

// holds waits until it holds its memory, of the only GPU that it sees.
func (x taker) holds() {
	x.t.Helper()
	if got := waitFile(x.t, x.said); !strings.HasPrefix(got, "1 GPUs ") {
		x.t.Errorf("it sees %s, want 1", got)
	}
}

// release has it end.
func (x taker) release() {
	x.t.Helper()
	if err := os.WriteFile(x.until, nil, 0o644); err != nil {
		x.t.Fatal(err)
	}
}

// times are when it began and when it ended.
func (x taker) times() (began, ended float64) {
	x.t.Helper()
	fields := strings.Fields(waitFile(x.t, x.said))
	began, err := strconv.ParseFloat(fields[len(fields)-1], 64)
	if err != nil {
		x.t.Fatal(err)
	}
	if ended, err = strconv.ParseFloat(waitFile(x.t, x.said+".end"), 64); err != nil {
		x.t.Fatal(err)
	}
	return began, ended
}

// device is this machine's only GPU, as nvidia-smi has it.
type device struct {
	uuid    string
	mib     int64
	usedMiB int64
}

func onlyDevice(t *testing.T) device {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "nvidia-smi", "--query-gpu=uuid,memory.total,memory.used", "--format=csv,noheader,nounits").Output()
	if err != nil {
		t.Skipf("this machine has no GPU that the driver shows: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 1 {
		t.Skipf("this test wants a machine with one GPU; it has %d", len(lines))
	}
	var d device
	f := strings.Split(lines[0], ", ")
	if d.uuid = f[0]; len(f) == 3 {
		d.mib, _ = strconv.ParseInt(f[1], 10, 64)
		d.usedMiB, _ = strconv.ParseInt(f[2], 10, 64)
	}
	if d.mib == 0 {
		t.Fatalf("nvidia-smi says %q", lines[0])
	}
	return d
}

// inRealTiers runs a test in both tiers with this machine's own GPUs.
func inRealTiers(t *testing.T, test func(t *testing.T, m *harness.Muster)) {
	t.Helper()
	for _, name := range []string{"plain", "isolated"} {
		t.Run(name, func(t *testing.T) { test(t, own(t, "--tier", name)) })
	}
}

// TestGPUIsHeldAndGivenBack has jobs take a real GPU one after the other. Each
// sees the GPU that it was given, and one without none; who waits is told for
// whom, and starts as soon as the process before it has ended; its memory comes
// back; and Muster's death changes nothing.
func TestGPUIsHeldAndGivenBack(t *testing.T) {
	before := onlyDevice(t)
	inRealTiers(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx := m.Namespace(t), deadline(t, 3*time.Minute)
		expect(t, m.Run(ctx, "doctor"), 0, "(read through nvml)")
		const jobs = 8
		var all []taker
		for i := range jobs {
			x := newTaker(t, 1024)
			all = append(all, x)
			submit(t, m, ns, fmt.Sprint("job-", i), append([]string{"--gpus", "1", "--"}, x.command...)...)
			if i == 0 {
				x.holds()
			}
		}
		waitPhase(t, m, ns, "job-1", v1alpha1.JobWaiting)
		expect(t, m.Run(ctx, "-n", ns, "why", "job-1"), 0, "job-0")
		harness.Eventually(t, 20*time.Second, "waiting until muster top has looked", func() error {
			r := m.Run(ctx, "top")
			if !strings.Contains(r.Stdout, ns+"/job-0") || !strings.Contains(r.Stdout, " GiB") || strings.Contains(r.Stdout, "python3") {
				return fmt.Errorf("it says %s", r.Stdout)
			}
			return nil
		})
		t.Log(m.Run(ctx, "top").Stdout)
		none := newTaker(t, 1)
		none.release()
		expect(t, m.Run(ctx, append([]string{"-n", ns, "run", "--name", "none", "--code", "none", "--"}, none.command...)...), 9)

		m.Kill9(t)
		if err := m.Start(ctx); err != nil {
			t.Fatal(err)
		}
		for i, x := range all {
			x.holds()
			if i == 0 {
				waitPhase(t, m, ns, "job-0", v1alpha1.JobRunning)
			}
			x.release()
		}
		var gaps []time.Duration
		for i := 1; i < jobs; i++ {
			_, ended := all[i-1].times()
			began, _ := all[i].times()
			gaps = append(gaps, time.Duration((began-ended)*float64(time.Second)))
			waitPhase(t, m, ns, fmt.Sprint("job-", i), v1alpha1.JobSucceeded)
		}
		slices.Sort(gaps)
		t.Logf("from a program's last line to the first of the next on the same GPU: median %v, longest %v of %d", gaps[len(gaps)/2], gaps[len(gaps)-1], len(gaps))
		if longest := gaps[len(gaps)-1]; longest > 3*time.Second {
			t.Errorf("a GPU was with nobody for %v", longest)
		}
		memoryBack(t, before)
	})
}

// memoryBack waits until no more of the GPU's memory is used than before.
func memoryBack(t *testing.T, before device) {
	t.Helper()
	harness.Eventually(t, 20*time.Second, "waiting until the GPU's memory is free", func() error {
		if now := onlyDevice(t); now.usedMiB > before.usedMiB+64 {
			return fmt.Errorf("%d MiB are used, %d before", now.usedMiB, before.usedMiB)
		}
		return nil
	})
}

// TestGPUOfAKilledJob stops a job whose program holds memory of the GPU and
// does not listen.
func TestGPUOfAKilledJob(t *testing.T) {
	before := onlyDevice(t)
	inRealTiers(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx := m.Namespace(t), deadline(t, 2*time.Minute)
		x := newTaker(t, before.mib/2)
		submit(t, m, ns, "held", append([]string{"--gpus", "1", "--"}, x.command...)...)
		x.holds()
		expect(t, m.Run(ctx, "-n", ns, "delete", "held"), 0)
		memoryBack(t, before)
		all := newTaker(t, before.mib*9/10)
		all.release()
		expect(t, m.Run(ctx, append([]string{"-n", ns, "run", "--name", "all", "--gpus", "1", "--code", "none", "--"}, all.command...)...), 0)
	})
}

// TestGPUOfOthers leaves a GPU alone that a process of somebody else uses, says
// whose it is, and gives the GPU out once that has ended.
func TestGPUOfOthers(t *testing.T) {
	onlyDevice(t)
	m := own(t, "--tier", "plain")
	ns, ctx := m.Namespace(t), deadline(t, 2*time.Minute)
	other := newTaker(t, 512)
	command := exec.CommandContext(ctx, other.command[0], other.command[1:]...)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	other.holds()
	harness.Eventually(t, 20*time.Second, "waiting until muster top shows it", func() error {
		if r := m.Run(ctx, "top"); !strings.Contains(r.Stdout, fmt.Sprintf("process %d of ", command.Process.Pid)) {
			return fmt.Errorf("it says %s", r.Stdout)
		}
		return nil
	})
	t.Log(m.Run(ctx, "top").Stdout)
	next := newTaker(t, 512)
	next.release()
	submit(t, m, ns, "next", append([]string{"--gpus", "1", "--"}, next.command...)...)
	waitPhase(t, m, ns, "next", v1alpha1.JobWaiting)
	r := m.Run(ctx, "-n", ns, "why", "next")
	expect(t, r, 0, fmt.Sprintf("process %d of ", command.Process.Pid))
	t.Log(r.Stdout)
	other.release()
	if err := command.Wait(); err != nil {
		t.Fatal(err)
	}
	waitPhase(t, m, ns, "next", v1alpha1.JobSucceeded)
}

// TestGPUShares has two jobs with parts of a real GPU run at the same time.
// With MPS one that takes more than its part is told by the driver that there
// is no more, and the other goes on; without, it is said that nothing keeps it.
func TestGPUShares(t *testing.T) {
	d := onlyDevice(t)
	for _, enforced := range []bool{true, false} {
		t.Run(map[bool]string{true: "MPS", false: "alone"}[enforced], func(t *testing.T) {
			if enforced {
				startMPS(t, d)
			}
			m := own(t, "--tier", "plain")
			ns, ctx := m.Namespace(t), deadline(t, 2*time.Minute)
			neighbour, greedy := newTaker(t, d.mib/4), newTaker(t, d.mib/2)
			submit(t, m, ns, "neighbour", append([]string{"--gpus", "500m", "--"}, neighbour.command...)...)
			neighbour.holds()
			submit(t, m, ns, "greedy", append([]string{"--gpus", "250m", "--backoff-limit", "0", "--"}, greedy.command...)...)
			want := v1alpha1.JobFailed
			if !enforced {
				greedy.holds()
				greedy.release()
				want = v1alpha1.JobSucceeded
			}
			waitPhase(t, m, ns, "greedy", want)
			r := m.Run(ctx, "-n", ns, "describe", "greedy")
			t.Log(r.Stdout)
			if enforced {
				expect(t, r, 0, "exit code 7")
			}
			if told := strings.Contains(m.Run(ctx, "-n", ns, "describe", "neighbour").Stdout, "not enforced"); told == enforced {
				t.Errorf("it is said that the share is not enforced: %t", told)
			}
			t.Log(m.Run(ctx, "top").Stdout)
			neighbour.release()
			waitPhase(t, m, ns, "neighbour", v1alpha1.JobSucceeded)
		})
	}
}

// startMPS starts NVIDIA's Multi-Process Service for one test.
func startMPS(t *testing.T, d device) {
	t.Helper()
	dir := t.TempDir()
	control := func(input string, args ...string) error {
		command := exec.CommandContext(context.WithoutCancel(t.Context()), "nvidia-cuda-mps-control", args...)
		command.Env = append(os.Environ(), "CUDA_MPS_PIPE_DIRECTORY="+dir, "CUDA_MPS_LOG_DIRECTORY="+dir, "CUDA_VISIBLE_DEVICES="+d.uuid)
		command.Stdin = strings.NewReader(input)
		return command.Run()
	}
	if err := control("", "-d"); err != nil {
		t.Skipf("there is no MPS here: %v", err)
	}
	t.Cleanup(func() { _ = control("quit -t 5\n") })
	t.Setenv("CUDA_MPS_PIPE_DIRECTORY", dir)
}

// products multiplies large matrices and says how many are done in a second.
const products = `
import time, torch
x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
for _ in range(10):
    x @ x
torch.cuda.synchronize()
began = time.time()
for _ in range(200):
    x @ x
torch.cuda.synchronize()
print("rate", 200 / (time.time() - began), flush=True)
`

// trainedTogether has two processes train one model on parts of a GPU.
const trainedTogether = `
import os, torch
import torch.distributed as dist
dist.init_process_group("gloo")
torch.manual_seed(0)
torch.cuda.set_per_process_memory_fraction(float(os.environ["MUSTER_GPU_MEMORY_FRACTION"]))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 1).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(1 + dist.get_rank())
for step in range(200):
    x = torch.randn(256, 64, device="cuda")
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
weights = torch.cat([p.detach().flatten() for p in model.parameters()]).cpu()
total = weights.clone()
dist.all_reduce(total)
assert torch.allclose(total, dist.get_world_size() * weights), "the ranks have different models"
print("rank %d of %d on %s: loss %.4f" % (dist.get_rank(), dist.get_world_size(), torch.cuda.get_device_name(), loss.item()), flush=True)
assert loss.item() < 0.5
`

// TestGPUTrains runs PyTorch on a real GPU: as fast as without Muster, and two
// processes together on halves of it.
func TestGPUTrains(t *testing.T) {
	onlyDevice(t)
	if err := exec.CommandContext(t.Context(), "python3", "-c", "import sys, torch; sys.exit(not torch.cuda.is_available())").Run(); err != nil {
		t.Skip("python3 has no PyTorch that sees the GPU")
	}
	dir := folder(t, map[string]string{"products.py": products, "together.py": trainedTogether})
	rate := func(r harness.Result) float64 {
		t.Helper()
		_, after, _ := strings.Cut(r.Stdout, "rate ")
		v, err := strconv.ParseFloat(strings.TrimSpace(after), 64)
		if err != nil || r.Code != 0 {
			t.Fatalf("exit code %d: %s%s", r.Code, r.Stdout, r.Stderr)
		}
		return v
	}
	bare := rate(harness.Finish(exec.CommandContext(t.Context(), "python3", filepath.Join(dir, "products.py"))))
	inRealTiers(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx := m.Namespace(t), deadline(t, 3*time.Minute)
		r := m.RunIn(ctx, dir, "-n", ns, "run", "--gpus", "1", "--", "python3", "products.py")
		got := rate(r)
		t.Logf("%.0f products of 8192 x 8192 a second (%.0f TFLOP/s), %.0f without Muster: %.3f of that; all of muster run took %v", got, got*2*8192*8192*8192/1e12, bare, got/bare, r.Took)
		if got < 0.9*bare {
			t.Errorf("%.0f a second, %.0f without Muster", got, bare)
		}
		r = m.RunIn(ctx, dir, "-n", ns, "run", "--nodes", "2", "--gpus", "500m", "--framework", "PyTorch", "--", "python3", "together.py")
		expect(t, r, 0, "rank 0 of 2 on ", "rank 1 of 2 on ")
		t.Log(r.Stdout)
	})
}
