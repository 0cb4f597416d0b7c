//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestQueuesBorrowAndReclaim: a queue borrows what its sibling leaves; when the
// sibling wants its guarantee, the borrower makes room, waits, and runs again
// when there is room again. Nothing is counted as a failure.
func TestQueuesBorrowAndReclaim(t *testing.T) {
	m := own(t, "--tier", "plain", "--simulate-gpus", "4xA100")
	ns := m.Namespace(t)
	ctx := deadline(t, 3*time.Minute)
	dir := folder(t, map[string]string{"a": ""})
	for _, name := range []string{"vision", "nlp"} {
		expect(t, m.Run(ctx, "queue", "create", name, "--guaranteed", "gpu=2", "--min-run-time", "1s"), 0)
	}
	submit := func(name, queue string, gpus int, command ...string) {
		args := append([]string{"-n", ns, "run", "--name", name, "--queue", queue, "--gpus", fmt.Sprint(gpus), "--detach", "--"}, command...)
		expect(t, m.RunIn(ctx, dir, args...), 0)
	}
	submit("own", "nlp", 2, "sleep", "60")
	waitPhase(t, m, ns, "own", v1alpha1.JobRunning)
	submit("borrower", "nlp", 2, "sleep", "60")
	waitPhase(t, m, ns, "borrower", v1alpha1.JobRunning)
	harness.Eventually(t, 20*time.Second, "the list saying what is borrowed", func() error {
		r := m.Run(ctx, "queue", "list")
		for line := range strings.Lines(r.Stdout) {
			if strings.Contains(line, "nlp") && strings.Contains(line, "4") && strings.Contains(line, "2") {
				return nil
			}
		}
		return fmt.Errorf("got %s %s", r.Stdout, r.Stderr)
	})
	// The sibling wants what it is guaranteed.
	submit("entitled", "vision", 2, "sleep", "8")
	waitPhase(t, m, ns, "entitled", v1alpha1.JobRunning)
	evicted := ""
	for _, name := range []string{"own", "borrower"} {
		if job(t, m, ns, name).Status.Evictions > 0 {
			evicted = name
		}
	}
	if evicted == "" {
		t.Fatal("nobody made room, and yet there is room")
	}
	j := waitPhase(t, m, ns, evicted, v1alpha1.JobWaiting)
	if j.Status.Restarts != 0 {
		t.Errorf("an eviction counts as %d restarts", j.Status.Restarts)
	}
	expect(t, m.Run(ctx, "-n", ns, "why", evicted), 0, "GPU")
	waitPhase(t, m, ns, "entitled", v1alpha1.JobSucceeded)
	waitPhase(t, m, ns, evicted, v1alpha1.JobRunning)
	expect(t, m.Run(ctx, "queue", "delete", "nlp"), 1, "own")
}

// TestPause: nothing new starts while starting is paused, what runs goes on,
// and everything says so.
func TestPause(t *testing.T) {
	m := own(t, "--tier", "plain", "--simulate-gpus", "2xA100")
	ns := m.Namespace(t)
	ctx := deadline(t, 2*time.Minute)
	dir := folder(t, map[string]string{"a": ""})
	run := func(name string) {
		expect(t, m.RunIn(ctx, dir, "-n", ns, "run", "--name", name, "--gpus", "1", "--detach", "--", "sleep", "4"), 0)
	}
	run("before")
	waitPhase(t, m, ns, "before", v1alpha1.JobRunning)
	expect(t, m.Run(ctx, "pause"), 0)
	run("after")
	waitPhase(t, m, ns, "after", v1alpha1.JobWaiting)
	waitPhase(t, m, ns, "before", v1alpha1.JobSucceeded)
	expect(t, m.Run(ctx, "-n", ns, "why", "after"), 0, "paused")
	expect(t, m.Run(ctx, "status"), 0, "paused")
	if p := job(t, m, ns, "after").Status.Phase; p != v1alpha1.JobWaiting {
		t.Errorf("the job is %s while starting is paused", p)
	}
	expect(t, m.Run(ctx, "unpause"), 0)
	waitPhase(t, m, ns, "after", v1alpha1.JobSucceeded)
}

// TestAQueueThatIsNot: the job waits and says so, and starts when the queue is
// made.
func TestAQueueThatIsNot(t *testing.T) {
	m := own(t, "--tier", "plain", "--simulate-gpus", "2xA100")
	ns := m.Namespace(t)
	ctx := deadline(t, 2*time.Minute)
	dir := folder(t, map[string]string{"a": ""})
	expect(t, m.Run(ctx, "queue", "create", "vision"), 0)
	expect(t, m.RunIn(ctx, dir, "-n", ns, "run", "--name", "a", "--queue", "visoin", "--gpus", "1", "--detach", "--", "true"), 0)
	waitPhase(t, m, ns, "a", v1alpha1.JobWaiting)
	expect(t, m.Run(ctx, "-n", ns, "why", "a"), 0, "visoin")
	expect(t, m.Run(ctx, "queue", "create", "visoin"), 0)
	waitPhase(t, m, ns, "a", v1alpha1.JobSucceeded)
}
