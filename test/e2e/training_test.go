//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

func example(name string) string { return filepath.Join(harness.Root(), "examples", name) }

// TestTensorFlow is the job of `make quickstart`, isolated or in both tiers: 2 parameter
// servers and 3 workers, between-graph, on real images, in an environment
// built from requirements.
func TestTensorFlow(t *testing.T) {
	inTiers(t, costly(isolatedTier), func(t *testing.T, m *harness.Muster) {
		ns := m.Namespace(t)
		ctx := deadline(t, 10*time.Minute)
		r := m.RunIn(ctx, example("quickstart"), "-n", ns, "run", "--name", "digits", "--workers", "3", "--ps", "2", "--gpus", "1",
			"--requirements", "requirements.txt", "--", "python", "train.py", "--steps", "1500")
		expect(t, r, 0, "worker-0", "ps-1", "accuracy")
		accuracy := lastFloat(t, r.Stdout, `accuracy ([0-9.]+)`)
		if accuracy < 0.8 {
			t.Errorf("accuracy %v, want at least 0.8", accuracy)
		}
		j := waitPhase(t, m, ns, "digits", v1alpha1.JobSucceeded)
		if gone := j.Status.DrainedTime.Sub(j.Status.LastWorkerTime.Time); gone > time.Second || gone < 0 {
			t.Errorf("parameter servers were gone %s after the last worker's end, want at most 1s", gone)
		}
		if j.Status.GPUSeconds.AsApproximateFloat64() <= 0 || j.Status.CPUSeconds.AsApproximateFloat64() <= 0 {
			t.Errorf("GPU-seconds %v, CPU-seconds %v: want both above 0", j.Status.GPUSeconds, j.Status.CPUSeconds)
		}
		nothingLeft(t, m, ns)
		// The logs outlive the pods of the parameter servers.
		expect(t, m.Run(ctx, "-n", ns, "logs", "digits", "--role", "ps"), 0, "is up")
		// A second run builds nothing.
		start := time.Now()
		expect(t, m.RunIn(ctx, example("quickstart"), "-n", ns, "run", "--name", "second", "--detach", "--requirements", "requirements.txt", "--", "python", "-c", "pass"), 0)
		waitPhase(t, m, ns, "second", v1alpha1.JobSucceeded)
		if took := time.Since(start); took > 15*time.Second {
			t.Errorf("a second job in the same environment took %s", took)
		}
	})
}

// TestTensorFlowSurvivesTheLossOfMembers kills the chief, a parameter server and, where
// there is time, another worker while they train: the step after each restart is not below
// the last one saved.
func TestTensorFlowSurvivesTheLossOfMembers(t *testing.T) {
	inTiers(t, costly(isolatedTier), func(t *testing.T, m *harness.Muster) {
		ns := m.Namespace(t)
		ctx := deadline(t, 10*time.Minute)
		// The last member is lost some 300 steps after the first; the rest takes 9 seconds.
		members, steps := []string{"worker-0", "ps-0"}, "1200"
		if long {
			members, steps = append(members, "worker-1"), "3000"
		}
		expect(t, m.RunIn(ctx, example("quickstart"), "-n", ns, "run", "--name", "lossy", "--workers", "2", "--ps", "1", "--detach",
			"--requirements", "requirements.txt", "--", "python", "train.py",
			"--steps", steps, "--save-every", "50", "--report-every", "20", "--step-seconds", "0.02"), 0)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("its members printed:\n%s", m.Run(context.Background(), "-n", ns, "logs", "lossy").Stdout)
			}
		})
		for i, member := range members {
			saved := waitSaved(t, m, ns, "lossy", 50*(i+1))
			killMember(t, m, ns, "lossy-"+member)
			waitSaved(t, m, ns, "lossy", saved+100)
		}
		j := waitPhase(t, m, ns, "lossy", v1alpha1.JobSucceeded)
		if int(j.Status.Restarts) < len(members) {
			t.Errorf("%d restarts, want at least the %d that were forced", j.Status.Restarts, len(members))
		}
		first := regexp.MustCompile(`first step: (\d+)`).FindAllStringSubmatch(m.Run(ctx, "-n", ns, "logs", "lossy", "--role", "worker").Stdout, -1)
		if len(first) == 0 {
			t.Fatal("no worker said its first step")
		}
		if step, _ := strconv.Atoi(first[len(first)-1][1]); step < 50 {
			t.Errorf("a restarted worker began at step %d, below the last one saved", step)
		}
		nothingLeft(t, m, ns)
	})
}

// TestTensorFlowOfAWorkerThatIsLate has a worker of the quickstart start once another
// one is done: it needs the parameter server alone.
func TestTensorFlowOfAWorkerThatIsLate(t *testing.T) {
	m := plainTier.start(t)
	ns := m.Namespace(t)
	const late = `[ $ROLE != worker ] || [ $INDEX = 0 ] || while [ ! -e "$MUSTER_CHECKPOINT_DIR/done" ]; do sleep 0.1; done
python train.py --steps 300 || exit
[ $ROLE != worker ] || touch "$MUSTER_CHECKPOINT_DIR/done"`
	expect(t, m.RunIn(deadline(t, 5*time.Minute), example("quickstart"), "-n", ns, "run", "--name", "late", "--workers", "2", "--ps", "1",
		"--requirements", "requirements.txt", "--", "sh", "-c", late), 0, "worker 0 done", "worker 1 done")
}

// waitSaved waits until a checkpoint of at least this step is saved, and
// returns its step.
func waitSaved(t *testing.T, m *harness.Muster, ns, name string, step int) (saved int) {
	t.Helper()
	harness.Eventually(t, 3*time.Minute, fmt.Sprintf("waiting for a checkpoint of step %d", step), func() error {
		files, _ := filepath.Glob(filepath.Join(m.Home, "volumes", ns, name+"-checkpoints-*", "checkpoints", "checkpoint"))
		if len(files) != 1 {
			j := job(t, m, ns, name)
			return fmt.Errorf("%d checkpoint folders; the job is %s: %s", len(files), j.Status.Phase, j.Status.Message)
		}
		data, err := os.ReadFile(files[0])
		if err != nil {
			return err
		}
		match := regexp.MustCompile(`^model_checkpoint_path: ".*model.ckpt-(\d+)"`).FindSubmatch(data)
		if match == nil {
			return fmt.Errorf("no step in %s", data)
		}
		if saved, _ = strconv.Atoi(string(match[1])); saved < step {
			return fmt.Errorf("step %d", saved)
		}
		return nil
	})
	return saved
}

// killMember sends SIGKILL to the processes of a member, from outside.
func killMember(t *testing.T, m *harness.Muster, ns, name string) {
	t.Helper()
	var pod corev1.Pod
	if err := m.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, &pod); err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, p := range harness.Processes(m.Home) {
		if strings.HasPrefix(p.Container, string(pod.UID)+"/") && !p.Shim {
			if p.Kill() == nil {
				killed++
			}
		}
	}
	if killed == 0 {
		t.Fatalf("no process of %s was found to kill", name)
	}
}

// nothingLeft fails the test unless no process of the namespace's pods is
// left, as /proc has it, and every GPU can be had at once.
func nothingLeft(t *testing.T, m *harness.Muster, ns string) {
	t.Helper()
	var pods corev1.PodList
	if err := m.Client.List(t.Context(), &pods, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	uids := map[string]string{}
	for _, pod := range pods.Items {
		uids[string(pod.UID)] = pod.Name
	}
	for _, p := range harness.Processes(m.Home) {
		uid, _, _ := strings.Cut(p.Container, "/")
		if name, ok := uids[uid]; ok {
			t.Errorf("left of %s: %s", name, p)
		}
	}
}

func lastFloat(t *testing.T, text, pattern string) float64 {
	t.Helper()
	all := regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		t.Fatalf("nothing matches %s in\n%s", pattern, text)
	}
	value, err := strconv.ParseFloat(strings.TrimRight(all[len(all)-1][1], "."), 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// TestPyTorch runs an all-reduce of 4 ranks with gloo.
func TestPyTorch(t *testing.T) {
	if err := exec.Command("/usr/bin/python3", "-c", "import torch.distributed").Run(); err != nil {
		t.Skip("/usr/bin/python3 has no PyTorch: install Debian's python3-torch")
	}
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns := m.Namespace(t)
		r := m.RunIn(deadline(t, 3*time.Minute), example("pytorch"), "-n", ns, "run", "--nodes", "4", "--", "/usr/bin/python3", "train.py")
		expect(t, r, 0, "rank 0 of 4", "rank 3 of 4")
	})
}

// reduce is a script that torchrun starts once a node: every rank adds its own
// number, and all must come to the same sum.
const reduce = `import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
total = torch.tensor([float(rank + 1)])
dist.all_reduce(total)
print(f"rank {rank} of {world} of run {os.environ['TORCHELASTIC_RUN_ID']}: sum {total.item():g}", flush=True)
`

// TestTorchrun has torchrun find its nodes by the variables that Muster sets,
// and nothing on its command line: 2 nodes with 1 process each.
func TestTorchrun(t *testing.T) {
	if err := exec.Command("/usr/bin/python3", "-c", "import torch.distributed.run").Run(); err != nil {
		t.Skip("/usr/bin/python3 has no PyTorch: install Debian's python3-torch")
	}
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns := m.Namespace(t)
		// Under Python 3.11 PyTorch 1.13 understands neither "redirect nothing",
		// its default, nor "everything": only standard output is kept in a file,
		// and shown too.
		r := m.RunIn(deadline(t, 3*time.Minute), folder(t, map[string]string{"reduce.py": reduce}), "-n", ns, "run", "--name", "elastic", "--nodes", "2",
			"--framework", "PyTorch", "--backoff-limit", "0", "--env", "PET_REDIRECTS=0:1", "--env", "PET_TEE=0:1", "--", "/usr/bin/python3", "-m", "torch.distributed.run", "reduce.py")
		expect(t, r, 0, "rank 0 of 2 of run elastic: sum 3", "rank 1 of 2 of run elastic: sum 3")
		waitPhase(t, m, ns, "elastic", v1alpha1.JobSucceeded)
		nothingLeft(t, m, ns)
	})
}
