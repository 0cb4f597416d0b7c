package trainingjob

import (
	"testing"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// What succeeded is done, whatever its last report said; what did not, is as
// far as it said.
func TestSuccessIsDone(t *testing.T) {
	for outcome, want := range map[v1alpha1.GangPhase]string{v1alpha1.GangSucceeded: "100%", v1alpha1.GangFailed: "90%", "": "90%"} {
		gang := &v1alpha1.Gang{Status: v1alpha1.GangStatus{Outcome: outcome, Progress: &v1alpha1.Progress{Percent: "90%", DoneMillionths: 900_000}}}
		var s v1alpha1.TrainingJobStatus
		mirror(&s, gang)
		if s.Progress.Percent != want {
			t.Errorf("outcome %q: %s is done, want %s", outcome, s.Progress.Percent, want)
		}
		if gang.Status.Progress.Percent != "90%" {
			t.Errorf("outcome %q: what was reported is overwritten", outcome)
		}
	}
}
