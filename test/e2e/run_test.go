//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

func TestRunStreamsAndExitsWithTheScriptsCode(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns := m.Namespace(t)
		dir := folder(t, map[string]string{
			"train.py":    "import sys, helper\nprint('out', helper.WORD)\nprint('err', file=sys.stderr)\nsys.exit(7)\n",
			"helper.py":   "WORD = 'from the code folder'\n",
			".gitignore":  "secret.txt\n",
			"secret.txt":  "x",
			"data/a.text": "a",
		})
		r := m.RunIn(deadline(t, 60*time.Second), dir, "-n", ns, "run", "--", "python3", "train.py")
		expect(t, r, 7, "out from the code folder", "err")
		r = m.RunIn(deadline(t, 60*time.Second), dir, "-n", ns, "run", "--", "sh", "-c", "ls -a; test ! -e secret.txt")
		expect(t, r, 0, "data")
	})
}

func TestRunHoldsItsGPUsAndGivesThemBack(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns := m.Namespace(t)
		dir := folder(t, map[string]string{"a.sh": "echo gpus=$MUSTER_GPUS cuda=$CUDA_VISIBLE_DEVICES\n"})
		r := m.RunIn(deadline(t, 60*time.Second), dir, "-n", ns, "run", "--gpus", "H100:2", "--", "sh", "a.sh")
		expect(t, r, 0, "gpus=GPU-sim-")
		if n := strings.Count(r.Stdout, "GPU-sim-"); n != 2 {
			t.Errorf("the script saw %d GPUs, want 2: %s", n, r.Stdout)
		}
		// All four A100 at once fit only if what was held came back.
		r = m.RunIn(deadline(t, 60*time.Second), dir, "-n", ns, "run", "--gpus", "A100:4", "--", "sh", "a.sh")
		expect(t, r, 0)
		// A member's GPUs are of one model, and there are not six of any.
		ctx := deadline(t, 60*time.Second)
		expect(t, m.RunIn(ctx, dir, "-n", ns, "run", "--name", "six", "--gpus", "6", "--detach", "--", "sh", "a.sh"), 0)
		waitPhase(t, m, ns, "six", v1alpha1.JobWaiting)
	})
}

func TestWaitingSaysWhyAndStartsWhenItFits(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns := m.Namespace(t)
		dir := folder(t, map[string]string{"wait.sh": "while [ ! -e \"$1\" ]; do sleep 0.1; done\n"})
		release := filepath.Join(t.TempDir(), "release")
		ctx := deadline(t, 90*time.Second)
		expect(t, m.RunIn(ctx, dir, "-n", ns, "run", "--name", "holder", "--gpus", "A100:3", "--detach", "--", "sh", "wait.sh", release), 0)
		waitPhase(t, m, ns, "holder", v1alpha1.JobRunning)
		expect(t, m.RunIn(ctx, dir, "-n", ns, "run", "--name", "next", "--gpus", "A100:2", "--detach", "--", "true"), 0)
		waitPhase(t, m, ns, "next", v1alpha1.JobWaiting)
		expect(t, m.Run(ctx, "-n", ns, "why", "next"), 0, "needs 2 A100", "1 is free", "holder")
		if err := os.WriteFile(release, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		waitPhase(t, m, ns, "next", v1alpha1.JobSucceeded)
	})
}

func TestAModelThatNobodyHasWaitsAndSaysSo(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns := m.Namespace(t)
		dir := folder(t, map[string]string{"a": ""})
		ctx := deadline(t, 60*time.Second)
		expect(t, m.RunIn(ctx, dir, "-n", ns, "run", "--name", "b", "--gpus", "B200:1", "--detach", "--", "true"), 0)
		waitPhase(t, m, ns, "b", v1alpha1.JobWaiting)
		expect(t, m.Run(ctx, "-n", ns, "why", "b"), 0, "B200", "A100")
	})
}

// TestStoppingSparesNobody runs a worker that forks grandchildren which leave
// its session and ignore SIGTERM.
func TestStoppingSparesNobody(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns := m.Namespace(t)
		mark := fmt.Sprintf("987%d", time.Now().UnixNano()%1e6)
		script := "trap '' TERM\nsetsid sh -c 'trap \"\" TERM; sleep " + mark + " & sleep " + mark + "' &\n(trap '' TERM; sleep " + mark + ")&\nwhile :; do sleep 1; done\n"
		ctx := deadline(t, 90*time.Second)
		grace := int64(3)
		stubborn := &v1alpha1.TrainingJob{}
		stubborn.Name, stubborn.Namespace = "stubborn", ns
		gpu := resource.MustParse("1")
		stubborn.Spec.Roles = []v1alpha1.Role{{Name: "worker", Command: []string{"sh", "-c", script}, GPUs: &gpu,
			Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace}}}}
		if err := m.Client.Create(ctx, stubborn); err != nil {
			t.Fatal(err)
		}
		waitPhase(t, m, ns, "stubborn", v1alpha1.JobRunning)
		sleepers := func() (n int) {
			for _, p := range harness.Processes(m.Home) {
				if strings.Contains(p.Command, "sleep "+mark) {
					n++
				}
			}
			return n
		}
		harness.Eventually(t, 10*time.Second, "waiting for the grandchildren", func() error {
			if n := sleepers(); n < 3 {
				return fmt.Errorf("%d sleepers", n)
			}
			return nil
		})
		expect(t, m.Run(ctx, "-n", ns, "delete", "stubborn"), 0)
		if n := sleepers(); n != 0 {
			t.Errorf("%d processes are left after delete returned", n)
		}
	})
}

func TestDryRunComesBack(t *testing.T) {
	m := isolated(t)
	ns := m.Namespace(t)
	dir := folder(t, map[string]string{"train.py": "print('hello from yaml')\n"})
	ctx := deadline(t, 60*time.Second)
	r := m.RunIn(ctx, dir, "-n", ns, "run", "--name", "again", "--dry-run", "-o", "yaml", "--", "python3", "train.py")
	expect(t, r, 0, "kind: TrainingJob")
	file := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(file, []byte(r.Stdout), 0o644); err != nil {
		t.Fatal(err)
	}
	expect(t, m.Run(ctx, "-n", ns, "apply", "-f", file), 0)
	waitPhase(t, m, ns, "again", v1alpha1.JobSucceeded)
	expect(t, m.Run(ctx, "-n", ns, "logs", "again"), 0, "hello from yaml")
	expect(t, m.Kubectl(ctx, r.Stdout, "apply", "-n", ns, "-f", "-"), 0)
}

// job reads a job.
func job(t testing.TB, m *harness.Muster, ns, name string) *v1alpha1.TrainingJob {
	t.Helper()
	var j v1alpha1.TrainingJob
	if err := m.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: name}, &j); err != nil {
		t.Fatalf("reading job %s: %v", name, err)
	}
	return &j
}

// waitPhase waits until the job is in the phase.
func waitPhase(t testing.TB, m *harness.Muster, ns, name string, phase v1alpha1.JobPhase) *v1alpha1.TrainingJob {
	t.Helper()
	var last *v1alpha1.TrainingJob
	harness.Eventually(t, 3*time.Minute, "waiting until "+name+" is "+string(phase), func() error {
		last = job(t, m, ns, name)
		if last.Status.Phase != phase {
			return fmt.Errorf("phase %s: %s", last.Status.Phase, last.Status.Message)
		}
		return nil
	})
	return last
}
