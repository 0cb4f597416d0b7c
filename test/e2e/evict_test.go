//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestEvictedJobGoesOnFromWhatItSaved gives the scheduler's order to make room
// to a job that saves its state on SIGTERM: it is told, goes on from there in a
// second attempt, and nothing is held against it. Then a person releases it by
// force, of which it is not told.
func TestEvictedJobGoesOnFromWhatItSaved(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx, seconds := m.Namespace(t), deadline(t, 90*time.Second), mark()
		told := filepath.Join(t.TempDir(), "told")
		script := `n=$(cat "$MUSTER_CHECKPOINT_DIR/step" 2>/dev/null || echo 0); echo "from $n" >> ` + told + `
trap 'echo $((n+7)) > "$MUSTER_CHECKPOINT_DIR/step"; echo saved >> ` + told + `; exit 1' TERM
sleep ` + seconds + ` & wait`
		submit(t, m, ns, "bert", "--gpus", "A100:1", "--resumable", "--expect", "2h", "--", "sh", "-c", script)
		waitPhase(t, m, ns, "bert", v1alpha1.JobRunning)
		waitFile(t, told)
		expect(t, m.Kubectl(ctx, "", "-n", ns, "annotate", "gang", "bert", v1alpha1.AnnotationEvict+"=1 vision/resnet"), 0)
		wrote(t, told, "from 0\nsaved\nfrom 7\n")
		j := waitPhase(t, m, ns, "bert", v1alpha1.JobRunning)
		if j.Status.Evictions != 1 || j.Status.Restarts != 0 {
			t.Errorf("%d evictions and %d restarts, want 1 and 0", j.Status.Evictions, j.Status.Restarts)
		}
		expect(t, m.Run(ctx, "-n", ns, "describe", "bert"), 0, "1, for vision/resnet", "Evicted")
		expect(t, m.Run(ctx, "-n", ns, "release", "bert", "--force"), 2, "worker-0", "give --yes")
		expect(t, m.Run(ctx, "-n", ns, "release", "bert", "--force", "--yes"), 0, "bert released: 1 GPU")
		wrote(t, told, "from 0\nsaved\nfrom 7\nfrom 7\n")
		expect(t, m.Run(ctx, "-n", ns, "delete", "bert"), 0)
		waitGone(t, m, time.Second, seconds)
	})
}

// wrote waits until a file begins with these lines.
func wrote(t testing.TB, path, want string) {
	t.Helper()
	harness.Eventually(t, 30*time.Second, "waiting for what the job writes", func() error {
		got, err := os.ReadFile(path)
		if err == nil && !strings.HasPrefix(string(got), want) {
			err = fmt.Errorf("it wrote %q, want %q", got, want)
		}
		return err
	})
}

// TestPauseKeepsNewWorkFromStarting has one job run on and another wait until
// the pause ends.
func TestPauseKeepsNewWorkFromStarting(t *testing.T) {
	m := isolated(t)
	ns, ctx, seconds := m.Namespace(t), deadline(t, 90*time.Second), mark()
	submit(t, m, ns, "before", "--", "sleep", seconds)
	waitPhase(t, m, ns, "before", v1alpha1.JobRunning)
	t.Cleanup(func() { m.Run(context.WithoutCancel(t.Context()), "unpause") })
	expect(t, m.Run(ctx, "pause", "--reason", "new switches"), 0, "scheduling paused")
	submit(t, m, ns, "after", "--", "true")
	harness.Eventually(t, 30*time.Second, "waiting until the job waits", func() error {
		if r := m.Run(ctx, "-n", ns, "why", "after"); !strings.Contains(r.Stdout, "after Waiting") || !strings.Contains(r.Stdout, "new switches") {
			return fmt.Errorf("muster why says %q", r.Stdout)
		}
		return nil
	})
	expect(t, m.Run(ctx, "status"), 0, "scheduling is paused since", "new switches")
	if j := job(t, m, ns, "before"); j.Status.Phase != v1alpha1.JobRunning {
		t.Errorf("what ran is %s: %s", j.Status.Phase, j.Status.Message)
	}
	expect(t, m.Run(ctx, "unpause"), 0, "scheduling goes on")
	waitPhase(t, m, ns, "after", v1alpha1.JobSucceeded)
	expect(t, m.Run(ctx, "-n", ns, "delete", "before"), 0)
}
