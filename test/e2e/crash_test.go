//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestKillFindsEverythingAgain kills Muster with 20 jobs running: all are
// adopted within 5 s, none is lost and none is restarted.
func TestKillFindsEverythingAgain(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		const jobs = 20
		ns := m.Namespace(t)
		ctx := deadline(t, 4*time.Minute)
		dir := folder(t, map[string]string{"a": ""})
		for i := range jobs {
			expect(t, m.RunIn(ctx, dir, "-n", ns, "run", "--name", fmt.Sprintf("j%d", i), "--cpus", "10m", "--memory", "16Mi", "--detach", "--", "sleep", "1000"), 0)
		}
		for i := range jobs {
			waitPhase(t, m, ns, fmt.Sprintf("j%d", i), v1alpha1.JobRunning)
		}
		before := sleeping(m)
		m.Kill9(t)
		if err := m.Start(ctx); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for i := range jobs {
			if j := waitPhase(t, m, ns, fmt.Sprintf("j%d", i), v1alpha1.JobRunning); j.Status.Restarts != 0 {
				t.Errorf("job %s was restarted %d times", j.Name, j.Status.Restarts)
			}
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("adopted after %s, want at most 5s", took)
		}
		after := sleeping(m)
		for pid := range before {
			if !after[pid] {
				t.Errorf("process %d was lost", pid)
			}
		}
		if len(before) != jobs || len(after) != jobs {
			t.Errorf("%d processes before, %d after, want %d both times", len(before), len(after), jobs)
		}
	})
}

// sleeping returns the pids of the containers' sleep commands.
func sleeping(m *harness.Muster) map[int]bool {
	pids := map[int]bool{}
	for _, p := range harness.Processes(m.Home) {
		if !p.Shim && strings.HasPrefix(p.Command, "sleep") {
			pids[p.PID] = true
		}
	}
	return pids
}

// noDeviceTwice fails the test if two live pods name the same GPU.
func noDeviceTwice(t *testing.T, m *harness.Muster) {
	t.Helper()
	var pods corev1.PodList
	if err := m.Client.List(t.Context(), &pods); err != nil {
		t.Fatal(err)
	}
	holder := map[string]string{}
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, uuid := range strings.Split(pod.Annotations[v1alpha1.AnnotationGPUs], ",") {
			if uuid == "" {
				continue
			}
			if other, taken := holder[uuid]; taken {
				t.Errorf("%s is given to %s and to %s", uuid, other, pod.Name)
			}
			holder[uuid] = pod.Name
		}
	}
}

// TestAnEndWhileMusterIsAway ends a member while nobody watches: its exit code
// is not lost.
func TestAnEndWhileMusterIsAway(t *testing.T) {
	m := isolated(t)
	ns := m.Namespace(t)
	ctx := deadline(t, 2*time.Minute)
	dir := folder(t, map[string]string{"a": ""})
	expect(t, m.RunIn(ctx, dir, "-n", ns, "run", "--name", "away", "--backoff-limit", "0", "--detach", "--", "sh", "-c", "sleep 2; echo last words; exit 9"), 0)
	waitPhase(t, m, ns, "away", v1alpha1.JobRunning)
	m.Kill9(t)
	harness.Eventually(t, 20*time.Second, "waiting for the member's end", func() error {
		for _, p := range harness.Processes(m.Home) {
			if strings.Contains(p.Command, "last words") {
				return fmt.Errorf("%s", p)
			}
		}
		return nil
	})
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	waitPhase(t, m, ns, "away", v1alpha1.JobFailed)
	var pods corev1.PodList
	if err := m.Client.List(ctx, &pods, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 || pods.Items[0].Status.ContainerStatuses[0].State.Terminated.ExitCode != 9 {
		t.Errorf("the pod says %+v, want one with exit code 9", pods.Items)
	}
	expect(t, m.Run(ctx, "-n", ns, "logs", "away"), 0, "last words")
}
