//go:build conformance && gpu

package conformance

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/cluster"
	"github.com/muster-dev/muster/test/e2e/harness"
)

func init() { platforms["gpu"] = realGPU }

// realGPU is a real Kubernetes whose first node has this machine's own GPU, named
// by Muster's agent, and whose second has the manager.
func realGPU(ctx context.Context) (*platform, error) {
	manager, err := cluster.Program(ctx, "muster.test/muster:v1", harness.Binary(), "/muster")
	if err != nil {
		return nil, err
	}
	python3, err := basePython(ctx)
	if err != nil {
		return nil, err
	}
	python, err := cluster.Python(ctx, python3)
	if err != nil {
		return nil, err
	}
	node := cluster.NodeOptions{Images: []cluster.Image{manager, python}}
	started, err := cluster.Start(ctx, cluster.Options{Scheduler: true, Nodes: []cluster.NodeOptions{node, node}})
	if err != nil {
		return nil, err
	}
	p := &platform{kubeconfig: started.Kubeconfig(), image: cluster.PythonImage, python: cluster.PythonImage, apart: true,
		stop: func(context.Context) error { return started.Stop() }}
	p.installed = "install --reset-values --set image.repository=muster.test/muster --set image.tag=v1 --set manager.replicas=1 --set manager.resources.limits=null" +
		" --set manager.nodeSelector.kubernetes\\.io/hostname=node-2 --set defaultQueue.subjects[0].kind=Group --set defaultQueue.subjects[0].name=system:authenticated" +
		" --set agent.create=true"
	if err := errors.Join(p.installAnd(ctx, "node add node-1 --force"), p.connectOnceServed(ctx)); err != nil {
		return nil, errors.Join(err, started.Stop())
	}
	return p, nil
}

// basePython is the interpreter that python3's virtual environment is of, if it
// is in one: what that has in it may be many gigabytes.
func basePython(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "python3", "-c", "import os, sys; print(os.path.realpath(getattr(sys, '_base_executable', sys.executable)))").Output()
	if err != nil {
		return "", fmt.Errorf("asking python3 where it lies: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// takes is a program that takes so many MiB of its first GPU, says how many it
// sees and when, waits until it is released, and says when that was. It ends with
// 7 where there is no more memory, and with 9 where there is no GPU.
const takes = `
import ctypes, os, sys, time
def call(name, *args):
    code = getattr(cuda, name)(*args)
    if code:
        sys.exit({2: 7, 100: 9}.get(code, "%s: %d" % (name, code)))
started = time.time()
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as e:
    print(e, flush=True)
    sys.exit(9)
size = ctypes.c_size_t(int(sys.argv[1]) << 20)
count, device, context, memory = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
call("cuInit", 0)
call("cuDeviceGetCount", ctypes.byref(count))
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
call("cuMemAlloc_v2", ctypes.byref(memory), size)
call("cuMemsetD8_v2", memory, 1, size)
call("cuCtxSynchronize")
print("sees %d GPUs %f" % (count.value, started), flush=True)
until = os.environ.get("MUSTER_ROOT", "") + "/release"
while len(sys.argv) > 2 and not os.path.exists(until):
    time.sleep(0.05)
print("ends %f" % time.time(), flush=True)
`

// taking submits a job that takes memory of a GPU, and holds it until released.
func (p *platform) taking(t testing.TB, ns, name, gpus string, mib int, held bool) {
	t.Helper()
	words := fmt.Sprintf("[python3, -c, %q, '%d'", takes, mib)
	if held {
		words += ", held"
	}
	p.submit(t, ns, name, fmt.Sprintf("{backoffLimit: 0, roles: [{name: worker, %scommand: %s]}]}", gpus, words))
}

// said is what the only member of a job has said; it waits until that has words.
func (p *platform) said(t testing.TB, ns, job, words string) (text string) {
	t.Helper()
	harness.Eventually(t, within, "waiting until "+job+" says "+words, func() error {
		r := p.kubectl(t, "", "-n", ns, "logs", "-l", v1alpha1.LabelJob+"="+job, "--tail=-1")
		if text = r.Stdout; !strings.Contains(text, words) {
			if job := p.job(t, ns, job); job.Status.Phase == v1alpha1.JobFailed {
				t.Fatalf("%s: %s: it says %q", job.Name, job.Status.Message, text)
			}
			return fmt.Errorf("it says %q%s", text, r.Stderr)
		}
		return nil
	})
	return text
}

// number is the one that a program said after some words.
func number(t testing.TB, text, words string) (v float64) {
	t.Helper()
	_, after, _ := strings.Cut(text, words)
	if _, err := fmt.Sscan(after, &v); err != nil {
		t.Fatalf("no number after %q in %q", words, text)
	}
	return v
}

// usedMiB is how much of the GPU's memory is used, as the machine has it.
func usedMiB(t testing.TB) (mib int) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits").Output()
	if err == nil {
		_, err = fmt.Sscan(string(out), &mib)
	}
	if err != nil {
		t.Fatal(err)
	}
	return mib
}

// TestRealGPU has pods of a real Kubernetes take a real GPU: each sees the one
// that it was given, by the driver's libraries of the machine, and nobody else
// does; the next has it when the last container has ended, and its memory, too.
func TestRealGPU(t *testing.T) {
	ns, before := the.namespace(t), usedMiB(t)
	the.taking(t, ns, "first", "gpus: 1, ", 1024, true)
	if text := the.said(t, ns, "first", "sees "); !strings.Contains(text, "sees 1 GPUs") {
		t.Errorf("it %s, want 1", text)
	}
	on := the.pods(t, ns, "first")[0]
	uuid := on.Annotations[v1alpha1.AnnotationGPUs]
	r := the.kubectl(t, "", "-n", ns, "exec", on.Name, "--", "nvidia-smi", "-L")
	if r.Code != 0 || !strings.Contains(r.Stdout, uuid) {
		t.Errorf("nvidia-smi in its container says %q%s, want %s", r.Stdout, r.Stderr, uuid)
	}
	t.Logf("given %s: %s", uuid, r.Stdout)
	r = the.kubectl(t, "", "-n", ns, "exec", on.Name, "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER $NVIDIA_VISIBLE_DEVICES")
	if want := "0 PCI_BUS_ID " + uuid; strings.TrimSpace(r.Stdout) != want {
		t.Errorf("it is told %q%s, want %q", r.Stdout, r.Stderr, want)
	}
	if r := the.muster(t, "top"); !strings.Contains(r.Stdout, ns+"/first worker-0") || !strings.Contains(r.Stdout, "1 of 1") {
		t.Errorf("muster top does not show who has it: %s%s", r.Stdout, r.Stderr)
	}

	the.submit(t, ns, "no-file", fmt.Sprintf("{backoffLimit: 0, roles: [{name: worker, command: %s}]}", command("! ls /dev/nvidia[0-9]*")))
	the.until(t, ns, "no-file", v1alpha1.JobSucceeded)
	the.taking(t, ns, "none", "", 1, false)
	if job := the.until(t, ns, "none", v1alpha1.JobFailed); !strings.Contains(job.Status.Message, "exit code 9") {
		t.Errorf("a job without a GPU: %s", job.Status.Message)
	}

	const jobs = 6
	for i := range jobs {
		the.taking(t, ns, fmt.Sprint("next-", i), "gpus: 1, ", 1024, false)
	}
	the.says(t, ns, "next-0", "first")
	the.release(t, ns, "first", "worker", 0)
	ended := number(t, the.said(t, ns, "first", "ends "), "ends ")
	var gaps []time.Duration
	for i := range jobs {
		text := the.said(t, ns, fmt.Sprint("next-", i), "ends ")
		gaps = append(gaps, time.Duration((number(t, text, " GPUs ")-ended)*float64(time.Second)))
		ended = number(t, text, "ends ")
	}
	slices.Sort(gaps)
	t.Logf("from a program's last line to the first of the next on the same GPU: median %v, longest %v of %d", gaps[jobs/2], gaps[jobs-1], jobs)
	if gaps[jobs-1] > 5*time.Second {
		t.Errorf("a GPU was with nobody for %v", gaps[jobs-1])
	}
	harness.Eventually(t, 30*time.Second, "waiting until the GPU's memory is free", func() error {
		if now := usedMiB(t); now > before+64 {
			return fmt.Errorf("%d MiB are used, %d before", now, before)
		}
		return nil
	})
}

// TestRealGPUInParts has two pods take half of it each, at the same time, and a
// pod that names Muster as its scheduler take it afterwards.
func TestRealGPUInParts(t *testing.T) {
	ns := the.namespace(t)
	for _, name := range []string{"one", "other"} {
		the.taking(t, ns, name, "gpus: 500m, ", 2048, true)
	}
	for _, name := range []string{"one", "other"} {
		if text := the.said(t, ns, name, "sees "); !strings.Contains(text, "sees 1 GPUs") {
			t.Errorf("%s %s, want 1", name, text)
		}
	}
	share := the.job(t, ns, "one").Status.Roles[0].GPUShare
	if !strings.HasPrefix(share, "500m (") || !strings.Contains(share, "not enforced") {
		t.Errorf("its share is %q", share)
	}
	t.Log(the.muster(t, "top").Stdout)
	lone := fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: lone}, spec: {schedulerName: muster, restartPolicy: Never,
		containers: [{name: main, image: %q, command: [python3, -c, %q, '64'], resources: {limits: {nvidia.com/gpu: 1}}}]}}`, the.image, takes)
	if r := the.kubectl(t, lone, "-n", ns, "apply", "-f", "-"); r.Code != 0 {
		t.Fatal(r.Stderr)
	}
	the.release(t, ns, "one", "worker", 0)
	the.release(t, ns, "other", "worker", 0)
	harness.Eventually(t, within, "waiting until the pod has ended", func() error {
		var pod corev1.Pod
		if err := the.api.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "lone"}, &pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("it is %s: %v", pod.Status.Phase, pod.Status.Conditions)
		}
		return nil
	})
}

// TestRealGPUSurvives ends the agent under a job that computes: the job goes on,
// and its GPU is given to nobody else.
func TestRealGPUSurvives(t *testing.T) {
	ns := the.namespace(t)
	the.taking(t, ns, "goes-on", "gpus: 1, ", 512, true)
	the.said(t, ns, "goes-on", "sees ")
	if r := the.kubectl(t, "", "-n", "muster-system", "delete", "pod", "-l", "app.kubernetes.io/component=node", "--now"); r.Code != 0 || !strings.Contains(r.Stdout, "deleted") {
		t.Fatal(r.Stdout, r.Stderr)
	}
	the.taking(t, ns, "waits", "gpus: 1, ", 512, false)
	the.says(t, ns, "waits", "goes-on")
	the.release(t, ns, "goes-on", "worker", 0)
	the.until(t, ns, "goes-on", v1alpha1.JobSucceeded)
	the.until(t, ns, "waits", v1alpha1.JobSucceeded)
}
