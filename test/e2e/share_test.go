//go:build e2e

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestSharesOfOneGPU has two jobs with half a GPU each run on the only one at
// the same time. A third waits and says why; a job that wants the GPU for
// itself waits as well. All of that outlives a kill of Muster, and what waits
// starts when there is room.
func TestSharesOfOneGPU(t *testing.T) {
	m := own(t, "--tier", "plain", "--simulate-gpus", "1xA100:40Gi")
	ns, ctx, seconds := m.Namespace(t), deadline(t, 4*time.Minute), mark()
	said := filepath.Join(t.TempDir(), "said")
	tell := `echo "$MUSTER_GPU_MILLI $MUSTER_GPU_MEMORY_MIB $MUSTER_GPU_MEMORY_FRACTION" > ` + said + `; exec sleep ` + seconds
	submit(t, m, ns, "a", "--gpus", "500m", "--", "sh", "-c", tell)
	submit(t, m, ns, "b", "--gpu-memory", "20Gi", "--", "sleep", seconds)
	waitPhase(t, m, ns, "a", v1alpha1.JobRunning)
	waitPhase(t, m, ns, "b", v1alpha1.JobRunning)
	if got := strings.TrimSpace(waitFile(t, said)); got != "500 20480 0.5" {
		t.Errorf("the container of a reads %q", got)
	}
	submit(t, m, ns, "c", "--gpus", "A100:0.25", "--", "sleep", seconds)
	submit(t, m, ns, "whole", "--gpus", "1", "--", "sleep", seconds)
	waits := func(name, words string) {
		t.Helper()
		harness.Eventually(t, 30*time.Second, "waiting until "+name+" waits", func() error {
			if r := m.Run(ctx, "-n", ns, "why", name); !strings.Contains(r.Stdout, words) {
				return fmt.Errorf("muster why says %q", r.Stdout)
			}
			return nil
		})
	}
	waits("c", "needs 250m of an A100; the freest has 0m; held by ")
	waits("whole", "needs 1 GPU at once; none is free here")

	shown := func() {
		t.Helper()
		expect(t, m.Run(ctx, "-n", ns, "describe", "a"), 0,
			"GPU share of worker: 500m (20480 MiB), not enforced: the GPU is simulated", "500m, 20.0 GiB of 0 (A100, simulated)")
		expect(t, m.Run(ctx, "status"), 0, "GPU shared", ns+"/a worker-0 (500m, 20.0 GiB)", ns+"/b worker-0 (500m, 20.0 GiB)")
		expect(t, m.Run(ctx, "top"), 0, ns+"/a worker-0 (500m, 20.0 GiB)", ns+"/b worker-0 (500m, 20.0 GiB)", "1 of 1")
	}
	shown()
	before := running(m, seconds)
	m.Kill9(t)
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	waitPhase(t, m, ns, "a", v1alpha1.JobRunning)
	if after := running(m, seconds); len(after) != len(before) {
		t.Errorf("%v ran before the kill, and %v after", before, after)
	}
	shown()
	waits("c", "needs 250m of an A100; the freest has 0m; held by ")

	expect(t, m.Run(ctx, "-n", ns, "delete", "b"), 0)
	j := waitPhase(t, m, ns, "c", v1alpha1.JobRunning)
	if got := j.Status.Roles[0].GPUShare; got != "250m (10240 MiB), not enforced: the GPU is simulated" {
		t.Errorf("the status of c says %q", got)
	}
	waits("whole", "needs 1 GPU at once; none is free here")
	expect(t, m.Run(ctx, "-n", ns, "delete", "a", "c"), 0)
	waitPhase(t, m, ns, "whole", v1alpha1.JobRunning)
	expect(t, m.Run(ctx, "-n", ns, "delete", "whole"), 0)
	waitGone(t, m, 10*time.Second, seconds)
}

// TestSharesOfPods binds hand-written pods that ask for parts of a GPU, and
// tells those that ask for what cannot be.
func TestSharesOfPods(t *testing.T) {
	m := own(t, "--tier", "plain", "--simulate-gpus", "1xA100:40Gi")
	ns, ctx := m.Namespace(t), deadline(t, 2*time.Minute)
	pod := func(name, limits string) string {
		return `{apiVersion: v1, kind: Pod, metadata: {name: ` + name + `}, spec: {schedulerName: muster, restartPolicy: Never, terminationGracePeriodSeconds: 0,
containers: [{name: c, image: muster.dev/host, command: [sleep, "600"], resources: {limits: {` + limits + `}}}]}}`
	}
	says := func(name, path, words string) {
		t.Helper()
		harness.Eventually(t, 30*time.Second, "waiting for pod "+name, func() error {
			r := m.Kubectl(ctx, "", "-n", ns, "get", "pod", name, "-o", "jsonpath="+path)
			if !strings.Contains(r.Stdout, words) {
				return fmt.Errorf("it says %q", r.Stdout)
			}
			return nil
		})
	}
	const share, why = `{.metadata.annotations.muster\.dev/gpu-share} {.status.phase}`, `{.status.conditions[?(@.type=="PodScheduled")].message}`
	for _, c := range []struct{ name, limits, path, words string }{
		{"some", `muster.dev/gpu-milli: 300`, share, `{"milli":300,"memoryMiB":12288} Running`},
		{"memory", `muster.dev/gpu-memory: 8Gi`, share, `{"milli":200,"memoryMiB":8192} Running`},
		{"both", `muster.dev/gpu-milli: 100, muster.dev/gpu-memory: 4Gi`, share, `{"milli":100,"memoryMiB":4096} Running`},
		{"too-much", `muster.dev/gpu-milli: 401`, why, "needs 401m of a GPU; the freest has 400m"},
		{"no-share", `muster.dev/gpu-milli: 1500`, why, "a share is from 1 to 999 thousandths of one GPU"},
		{"mixed", `muster.dev/gpu-milli: 100, nvidia.com/gpu: 1`, why, "give one or the other"},
	} {
		expect(t, m.Kubectl(ctx, pod(c.name, c.limits), "apply", "-n", ns, "-f", "-"), 0)
		says(c.name, c.path, c.words)
	}
	expect(t, m.Kubectl(ctx, "", "-n", ns, "delete", "pod", "some", "--now"), 0)
	says("too-much", share, `"milli":401`)
}

// TestShareInTheIsolatedTier plans a share, runs it, and plans another beside
// it on the same GPU.
func TestShareInTheIsolatedTier(t *testing.T) {
	m := isolated(t)
	ns, ctx, seconds := m.Namespace(t), deadline(t, 90*time.Second), mark()
	manifest := filepath.Join(folder(t, map[string]string{"job.yaml": "apiVersion: muster.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: planned}\n" +
		"spec: {roles: [{name: worker, gpus: '0.25', gpuModels: [H100], command: ['true']}]}\n"}), "job.yaml")
	r := m.Run(ctx, "-n", ns, "plan", "-f", manifest)
	expect(t, r, 0, "planned would start now", "250m, 20.0 GiB of GPU-sim-")
	submit(t, m, ns, "small", "--gpus", "H100:250m", "--", "sleep", seconds)
	j := waitPhase(t, m, ns, "small", v1alpha1.JobRunning)
	if got := j.Status.Roles[0].GPUShare; !strings.HasPrefix(got, "250m (20480 MiB), not enforced: ") {
		t.Errorf("the status says %q", got)
	}
	if after := m.Run(ctx, "-n", ns, "plan", "-f", manifest); after.Stdout != r.Stdout {
		t.Errorf("beside it, it would go elsewhere:\n%s\n%s", r.Stdout, after.Stdout)
	}
	expect(t, m.Run(ctx, "-n", ns, "delete", "small"), 0)
	waitGone(t, m, 10*time.Second, seconds)
}

// TestBadShares are refused by the command line and by the API, with words.
func TestBadShares(t *testing.T) {
	m := isolated(t)
	ns, ctx := m.Namespace(t), deadline(t, time.Minute)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--gpus", "1500m"}, "a share is below one GPU, such as 250m or 0.25, or ask for whole GPUs"},
		{[]string{"--gpus", "0.0005"}, "a share is in thousandths"},
		{[]string{"--gpus", "2", "--gpu-memory", "8Gi"}, "leave --gpus out, or give a share"},
		{[]string{"--gpu-memory", "8"}, "give a unit"},
	} {
		expect(t, m.Run(ctx, append(append([]string{"-n", ns, "run"}, c.args...), "--", "true")...), 2, c.says)
	}
	for role, says := range map[string]string{
		`gpus: 1500m`:                 "a share below one GPU, such as 250m",
		`gpus: 2, gpuMemory: 8Gi`:     "gpuMemory is memory of one GPU",
		`gpuMemory: 12`:               "from 1Mi to 4Ti",
		`gpuMemory: lots`:             "from 1Mi to 4Ti",
		`gpus: 0.0001`:                "gpus",
		`gpus: "0", gpuMemory: "8Gi"`: "gpuMemory is memory of one GPU",
	} {
		manifest := "apiVersion: muster.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: bad}\nspec: {roles: [{name: worker, command: ['true'], " + role + "}]}\n"
		r := m.Kubectl(ctx, manifest, "apply", "-n", ns, "-f", "-")
		if r.Code == 0 || !strings.Contains(r.Stderr, says) {
			t.Errorf("%s: exit code %d, want another, and words with %q: %s", role, r.Code, says, r.Stderr)
		}
	}
}
