//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// trainee reports how far it is and saves every ten seconds, and once more when
// it is told to stop; it goes on from what it saved.
const trainee = `n=$(cat "$MUSTER_CHECKPOINT_DIR/step" 2>/dev/null || echo 0); echo "from $n" >> "$0"
save() { echo $n > "$MUSTER_CHECKPOINT_DIR/step.new"; mv "$MUSTER_CHECKPOINT_DIR/step.new" "$MUSTER_CHECKPOINT_DIR/step"; }
trap 'save; echo "saved $n" >> "$0"; exit 1' TERM
while :; do n=$((n+1)); echo "$n/1000" > "$MUSTER_PROGRESS"; [ $((n%10)) = 0 ] && save; sleep 1 & wait $!; done`

// TestWhoSavedMakesRoom: of two jobs that may be stopped, the one goes that saved
// last, though it has run for longer; what it saves after it was told to stop
// counts, and it goes on from there. Everything shows how far it is.
func TestWhoSavedMakesRoom(t *testing.T) {
	m := own(t, "--tier", "plain", "--simulate-gpus", "4xA100")
	ns, ctx := m.Namespace(t), deadline(t, 4*time.Minute)
	dir := folder(t, map[string]string{"a": ""})
	told := filepath.Join(t.TempDir(), "told")
	for _, name := range []string{"vision", "nlp"} {
		expect(t, m.Run(ctx, "queue", "create", name, "--guaranteed", "gpu=2", "--min-run-time", "1s"), 0)
	}
	start := func(name, queue string, command ...string) {
		args := append([]string{"-n", ns, "run", "--name", name, "--queue", queue, "--gpus", "2", "--resumable", "--detach", "--"}, command...)
		expect(t, m.RunIn(ctx, dir, args...), 0)
		waitPhase(t, m, ns, name, v1alpha1.JobRunning)
	}
	start("saves", "nlp", "sh", "-c", trainee, told)
	start("hoards", "nlp", "sleep", mark())
	since := job(t, m, ns, "hoards").Status.StartTime
	var before v1alpha1.TrainingJobStatus
	harness.Eventually(t, 2*time.Minute, "waiting until a save is seen", func() error {
		before = job(t, m, ns, "saves").Status
		if before.SavedTime == nil || before.SavedTime.Sub(since.Time) < 5*time.Second || before.Progress == nil {
			return fmt.Errorf("saved %v, at %+v; the other started at %v", before.SavedTime, before.Progress, since)
		}
		return nil
	})
	expect(t, m.Run(ctx, "-n", ns, "describe", "saves"), 0, "Progress", "Last saved", "%, reported")
	expect(t, m.Run(ctx, "-n", ns, "get"), 0, "DONE", before.Progress.Percent)
	expect(t, m.Run(ctx, "-n", ns, "get", "trainingjob", "saves", "-o", "json"), 0, `"savedTime"`, `"doneMillionths"`)
	expect(t, m.Run(ctx, "-n", ns, "why", "saves"), 0, "Ends:", "from the progress that is reported")
	expect(t, m.Run(ctx, "-n", ns, "why", "saves", "-o", "json"), 0, `"basis": "progress"`)
	expect(t, m.Run(ctx, "top"), 0, "saves worker-0, ", "% done")
	// A short job comes that is entitled to room.
	expect(t, m.RunIn(ctx, dir, "-n", ns, "run", "--name", "short", "--queue", "vision", "--gpus", "2", "--detach", "--", "sleep", "5"), 0)
	waitPhase(t, m, ns, "short", v1alpha1.JobSucceeded)
	if n := job(t, m, ns, "hoards").Status.Evictions; n != 0 {
		t.Errorf("the job that never saved was evicted %d times", n)
	}
	waitPhase(t, m, ns, "saves", v1alpha1.JobRunning)
	after := job(t, m, ns, "saves").Status
	if after.Evictions != 1 || after.Restarts != 0 {
		t.Errorf("the job that saves was evicted %d times and restarted %d times", after.Evictions, after.Restarts)
	}
	// It saved when it was told to, went on from there, and both is known.
	text, err := os.ReadFile(told)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 3 || lines[0] != "from 0" {
		t.Fatalf("it wrote %q", text)
	}
	if _, err := fmt.Sscanf(lines[1], "saved %d", &n); err != nil || n == 0 || lines[2] != fmt.Sprintf("from %d", n) {
		t.Errorf("it wrote %q", text)
	}
	info, err := os.Stat(told)
	if err != nil {
		t.Fatal(err)
	}
	if after.SavedTime == nil || !after.SavedTime.After(before.SavedTime.Time) || after.SavedTime.After(info.ModTime()) {
		t.Errorf("saved at %v, before at %v: what was saved after SIGTERM is not known", after.SavedTime, before.SavedTime)
	}
	expect(t, m.Run(ctx, "-n", ns, "delete", "saves", "hoards"), 0)
}

// TestNonsenseIsIgnoredInWords: a job that reports nonsense runs on, is not
// believed, and is told so, in both
// tiers.
func TestNonsenseIsIgnoredInWords(t *testing.T) {
	eachTier(t, func(t *testing.T, m *harness.Muster) {
		ns, ctx := m.Namespace(t), deadline(t, 90*time.Second)
		begin := filepath.Join(t.TempDir(), "go")
		script := `rm -rf "$MUSTER_PROGRESS"; mkfifo "$MUSTER_PROGRESS"; while ! test -e ` + begin + `; do sleep 0.1; done; rm "$MUSTER_PROGRESS"; printf '{"step": 3, "total": 4}' > "$MUSTER_PROGRESS"`
		submit(t, m, ns, "odd", "--", "sh", "-c", script)
		waitPhase(t, m, ns, "odd", v1alpha1.JobRunning)
		harness.Eventually(t, 40*time.Second, "waiting for words on what it reports", func() error {
			if r := m.Run(ctx, "-n", ns, "describe", "odd"); !strings.Contains(r.Stdout, "report is a pipe: it has to be a file") {
				return fmt.Errorf("it says %s", r.Stdout)
			}
			return nil
		})
		if err := os.WriteFile(begin, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		waitPhase(t, m, ns, "odd", v1alpha1.JobSucceeded)
		harness.Eventually(t, 10*time.Second, "waiting for what it said last", func() error {
			// What it said last stays beside it, as the last point.
			p := job(t, m, ns, "odd").Status.Progress
			if p == nil || p.DoneMillionths != 1_000_000 || len(p.Points) == 0 || p.Points[len(p.Points)-1].DoneMillionths != 750_000 {
				return fmt.Errorf("it is at %+v, want 100 %% for its success after 75 %% that it said", p)
			}
			return nil
		})
		expect(t, m.Run(ctx, "-n", ns, "delete", "odd"), 0)
	})
}

// TestASaveCountsOnceItIsComplete: a file that is being written is no save,
// however long nothing is added to it; it is one as soon as it is closed.
func TestASaveCountsOnceItIsComplete(t *testing.T) {
	inTiers(t, costly(plainTier), func(t *testing.T, m *harness.Muster) {
		ns, ctx, seconds := m.Namespace(t), deadline(t, 2*time.Minute), mark()
		sign := filepath.Join(t.TempDir(), "sign")
		await := func(n int) string { return fmt.Sprintf("while ! test -e %s%d; do sleep 0.1; done; ", sign, n) }
		script := `exec 3>"$MUSTER_CHECKPOINT_DIR/model.pt"; echo half >&3; echo 0.5 > "$MUSTER_PROGRESS"; ` + await(1) +
			`echo 0.9 > "$MUSTER_PROGRESS"; ` + await(2) + `echo rest >&3; exec 3>&-; sleep ` + seconds
		submit(t, m, ns, "slow", "--", "sh", "-c", script)
		begin := func(n int) {
			if err := os.WriteFile(fmt.Sprintf("%s%d", sign, n), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for n, percent := range []string{"50%", "90%"} {
			if n > 0 {
				begin(n)
			}
			harness.Eventually(t, 40*time.Second, "waiting until it is looked at", func() error {
				if p := job(t, m, ns, "slow").Status.Progress; p == nil || p.Percent != percent {
					return fmt.Errorf("it is at %+v", p)
				}
				return nil
			})
		}
		if at := job(t, m, ns, "slow").Status.SavedTime; at != nil {
			t.Errorf("half a file counts as saved at %v", at)
		}
		begin(2)
		harness.Eventually(t, 40*time.Second, "waiting until the save is seen", func() error {
			if job(t, m, ns, "slow").Status.SavedTime == nil {
				return fmt.Errorf("it is not")
			}
			return nil
		})
		expect(t, m.Run(ctx, "-n", ns, "delete", "slow"), 0)
	})
}
