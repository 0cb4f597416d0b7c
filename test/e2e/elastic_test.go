//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// elasticScript is a worker that says when it begins, when it is told to make
// room, when it has used its notice, and when it is done: once a file is there.
const elasticScript = `say() { echo "$INDEX $1" >> "$TOLD"; }
say began
trap 'say told; sleep 3; say saved; exit 1' TERM
while ! [ -e "$END" ]; do sleep 0.2 & wait $!; done
say done`

// TestAnElasticJobGrowsAndMakesRoom has a job of 1 to 4 workers grow over all
// GPUs. A second job needs two of them: exactly two workers are told, have their
// notice and end, then it starts. Muster is killed meanwhile. When the second
// job has ended, the first grows again, and in the end each of its workers has
// succeeded, with nothing held against it.
func TestAnElasticJobGrowsAndMakesRoom(t *testing.T) {
	m := own(t, "--tier", "plain", "--simulate-gpus", "4xA100")
	ns, ctx := m.Namespace(t), deadline(t, 4*time.Minute)
	dir := t.TempDir()
	told, end, otherEnd := filepath.Join(dir, "told"), filepath.Join(dir, "end"), filepath.Join(dir, "other-end")
	touch := func(path string) {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	submit(t, m, ns, "sweep", "--workers", "1..4", "--gpus", "1", "-e", "TOLD="+told, "-e", "END="+end, "--", "sh", "-c", elasticScript)
	waitReady(t, m, ns, "sweep", "4 of 1..4")
	expect(t, m.Run(ctx, "-n", ns, "get"), 0, "4 of 1..4")
	noDeviceTwice(t, m)

	// 1. Another comes, and Muster is killed while two make room for it.
	submit(t, m, ns, "bert", "--gpus", "2", "-e", "TOLD="+told, "-e", "END="+otherEnd, "-e", "INDEX=bert", "--", "sh", "-c", elasticScript)
	// Those that were added last are told, by the seconds of the API server's clock.
	going := toldTwo(t, told)
	m.Kill9(t)
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	said(t, told, going[0]+" saved", going[1]+" saved", "bert began")
	waitPhase(t, m, ns, "bert", v1alpha1.JobRunning)
	waitReady(t, m, ns, "sweep", "2 of 1..4")
	noDeviceTwice(t, m)
	lines := strings.Fields(strings.ReplaceAll(content(told), " ", "-"))
	for _, i := range going {
		if slices.Index(lines, i+"-saved") > slices.Index(lines, "bert-began") {
			t.Errorf("the other job began before worker %s had used its notice:\n%s", i, content(told))
		}
	}
	j := job(t, m, ns, "sweep")
	back := slices.Sorted(slices.Values(j.Status.GivenBack))
	if want := []string{"worker-" + going[0] + " for " + ns + "/bert", "worker-" + going[1] + " for " + ns + "/bert"}; !slices.Equal(back, want) || j.Status.Shrunk != 2 {
		t.Errorf("given back %v, %d in all, want %v", back, j.Status.Shrunk, want)
	}
	expect(t, m.Run(ctx, "-n", ns, "why", "sweep"), 0, "Members:  2 of 1..4; for another one: ", ns+"/bert")
	expect(t, m.Run(ctx, "-n", ns, "describe", "sweep"), 0, "1..4", "Given back", "worker-"+going[0]+" for "+ns+"/bert", "worker-"+going[1]+" for "+ns+"/bert")

	// 2. It ends: the first grows again.
	touch(otherEnd)
	waitPhase(t, m, ns, "bert", v1alpha1.JobSucceeded)
	waitReady(t, m, ns, "sweep", "4 of 1..4")

	// 3. Every index succeeds.
	touch(end)
	j = waitPhase(t, m, ns, "sweep", v1alpha1.JobSucceeded)
	if j.Status.Restarts != 0 || j.Status.Evictions != 0 || j.Status.Shrunk != 2 {
		t.Errorf("%d restarts, %d evictions, %d given back: want 0, 0 and 2", j.Status.Restarts, j.Status.Evictions, j.Status.Shrunk)
	}
	for _, i := range []string{"0", "1", "2", "3"} {
		back := 0
		if slices.Contains(going, i) {
			back = 1
		}
		for line, want := range map[string]int{i + " began": 1 + back, i + " told": back, i + " saved": back, i + " done": 1} {
			if got := strings.Count("\n"+content(told), "\n"+line+"\n"); got != want {
				t.Errorf("%q %d times, want %d", line, got, want)
			}
		}
	}
	harness.Eventually(t, 30*time.Second, "waiting until nothing is held", func() error {
		if held := strings.TrimSpace(m.Kubectl(ctx, "", "-n", ns, "get", "placements", "-o", "name").Stdout); held != "" {
			return fmt.Errorf("still held: %s", held)
		}
		return nil
	})
}

// toldTwo waits until two of the workers that were added have been told to go, and
// returns their indexes in order.
func toldTwo(t *testing.T, file string) []string {
	t.Helper()
	var out []string
	harness.Eventually(t, time.Minute, "waiting until two workers are told", func() error {
		out = nil
		for _, i := range []string{"1", "2", "3"} {
			if strings.Contains(content(file), i+" told\n") {
				out = append(out, i)
			}
		}
		if len(out) != 2 {
			return fmt.Errorf("told are %v: %q", out, content(file))
		}
		return nil
	})
	return out
}

// TestElasticNeedsMembersThatComeAndGo refuses what cannot be, in words.
func TestElasticNeedsMembersThatComeAndGo(t *testing.T) {
	m := isolated(t)
	ns, ctx := m.Namespace(t), deadline(t, time.Minute)
	expect(t, m.Run(ctx, "-n", ns, "run", "--workers", "1..4", "--framework", "PyTorch", "--", "true"), 2, "cannot come and go")
	expect(t, m.Run(ctx, "-n", ns, "run", "--workers", "4..1", "--", "true"), 2, "--workers 4..1: give a range")
	manifest := func(framework string, least int) string {
		return fmt.Sprintf(`{apiVersion: muster.dev/v1alpha1, kind: TrainingJob, metadata: {name: sweep}, spec: {framework: %s,
  roles: [{name: worker, replicas: 4, minReplicas: %d, command: ["true"]}]}}`, framework, least)
	}
	expect(t, m.Kubectl(ctx, manifest("PyTorch", 1), "-n", ns, "apply", "-f", "-"), 1, "cannot come and go")
	expect(t, m.Kubectl(ctx, manifest("None", 5), "-n", ns, "apply", "-f", "-"), 1, "minReplicas must be from 1 to replicas")
	expect(t, m.Kubectl(ctx, manifest("None", 0), "-n", ns, "apply", "-f", "-"), 1, "minReplicas")
	expect(t, m.Kubectl(ctx, manifest("PyTorch", 4), "-n", ns, "apply", "-f", "-"), 0)
	gang := `{apiVersion: muster.dev/v1alpha1, kind: Gang, metadata: {name: g}, spec: {rendezvous: PyTorch, doneWhen: [worker],
  roles: [{name: worker, replicas: 4, minReplicas: 1, template: {spec: {containers: [{name: main, image: muster.dev/host}]}}}]}}`
	expect(t, m.Kubectl(ctx, gang, "-n", ns, "apply", "-f", "-"), 1, "cannot come and go")
}

// waitReady waits until so many members of a job run.
func waitReady(t testing.TB, m *harness.Muster, ns, name, want string) {
	t.Helper()
	harness.Eventually(t, 60*time.Second, "waiting until "+name+" has "+want, func() error {
		if j := job(t, m, ns, name); j.Status.Ready != want {
			return fmt.Errorf("%s: it has %q: %s", j.Status.Phase, j.Status.Ready, j.Status.Message)
		}
		return nil
	})
}

// said waits until lines are in a file.
func said(t testing.TB, path string, lines ...string) {
	t.Helper()
	harness.Eventually(t, 60*time.Second, "waiting for what workers say", func() error {
		for _, line := range lines {
			if !strings.Contains("\n"+content(path), "\n"+line+"\n") {
				return fmt.Errorf("%q is not in %q", line, content(path))
			}
		}
		return nil
	})
}
