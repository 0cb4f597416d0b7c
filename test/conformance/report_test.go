//go:build conformance

package conformance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestReportedProgress: what a program writes into the file that MUSTER_PROGRESS
// names is on its job, shown by every command, and tells when the job will end;
// nonsense is told as such. Where nobody reads the file it can be written all the
// same, and that it is not read is said.
func TestReportedProgress(t *testing.T) {
	ns := the.namespace(t)
	the.holding(t, ns, "steps", 2, 1, "")
	the.until(t, ns, "steps", v1alpha1.JobRunning)
	says := func(member int, line string) {
		t.Helper()
		// As careful programs do: whole, and readable by nobody else.
		script := fmt.Sprintf(`umask 077; echo '%s' > "$MUSTER_PROGRESS.new" && mv "$MUSTER_PROGRESS.new" "$MUSTER_PROGRESS"`, line)
		if r := the.kubectl(t, "", "-n", ns, "exec", fmt.Sprintf("steps-worker-%d", member), "--", "sh", "-c", script); r.Code != 0 {
			t.Fatalf("reporting: %s%s", r.Stdout, r.Stderr)
		}
	}
	says(0, "step=250 total=1000 saved=true")
	says(1, "10%")
	if the.counts {
		the.shows(t, ns, "describe steps", "not read: the cluster has no agents of Muster")
		return
	}
	// 1. It is on the job: of worker 0, whose word counts.
	status := the.done(t, ns, "steps", 250_000)
	if status.Progress.Member != "worker-0" || status.SavedTime == nil {
		t.Errorf("by %s, saved at %v: want worker-0, and a moment", status.Progress.Member, status.SavedTime)
	}
	// 2. Nonsense is told, and changes nothing.
	says(0, "almost there")
	the.shows(t, ns, "describe steps", `"almost there"`)
	// 3. Two reports make a rate.
	says(0, `{"step": 750, "total": 1000}`)
	saved := status.SavedTime
	status = the.done(t, ns, "steps", 750_000)
	if len(status.Progress.Points) != 2 || status.SavedTime == nil || !status.SavedTime.Equal(saved) {
		t.Errorf("points %+v, saved at %v and %v", status.Progress.Points, saved, status.SavedTime)
	}
	the.shows(t, ns, "get", "DONE", "75%")
	the.shows(t, ns, "describe steps", "75%, reported", "by worker-0", "Last saved")
	the.shows(t, ns, "why steps", "Ends:", "from the progress that is reported")
	the.shows(t, ns, "why steps -o json", `"basis": "progress"`)
	the.shows(t, ns, "get trainingjob steps -o json", `"doneMillionths": 750000`, `"savedTime"`)
}

// shows waits until a command says all of the words.
func (p *platform) shows(t testing.TB, ns, line string, words ...string) {
	t.Helper()
	harness.Eventually(t, within, "waiting until muster "+line+" shows it", func() error {
		r := p.muster(t, append([]string{"-n", ns}, strings.Fields(line)...)...)
		for _, word := range words {
			if r.Code != 0 || !strings.Contains(r.Stdout, word) {
				return fmt.Errorf("exit code %d, without %q: %s%s", r.Code, word, r.Stdout, r.Stderr)
			}
		}
		return nil
	})
}

// done waits until a job says how much of it is done.
func (p *platform) done(t testing.TB, ns, name string, millionths int64) v1alpha1.TrainingJobStatus {
	t.Helper()
	var status v1alpha1.TrainingJobStatus
	harness.Eventually(t, within, "waiting until it is known how far "+name+" is", func() error {
		status = p.job(t, ns, name).Status
		if status.Progress == nil || status.Progress.DoneMillionths != millionths {
			return fmt.Errorf("it is at %+v, want %d", status.Progress, millionths)
		}
		return nil
	})
	return status
}
