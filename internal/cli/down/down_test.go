package down

import (
	"testing"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// TestOutlook: the message does not count a waiting job as training.
func TestOutlook(t *testing.T) {
	for want, phases := range map[string][]v1alpha1.JobPhase{
		"": nil,
		`; 2 job(s) go on training and are found again by the next "muster up"`:                                                               {v1alpha1.JobRunning, v1alpha1.JobStarting},
		`; 3 job(s) that have not started wait for the next "muster up"`:                                                                      {v1alpha1.JobWaiting, v1alpha1.JobPreparing, ""},
		`; 1 job(s) go on training and are found again by the next "muster up"; 1 job(s) that have not started wait for the next "muster up"`: {v1alpha1.JobRunning, v1alpha1.JobWaiting},
	} {
		jobs := make([]v1alpha1.TrainingJob, len(phases))
		for i, phase := range phases {
			jobs[i].Status.Phase = phase
		}
		if got := outlook(jobs); got != want {
			t.Errorf("%v: %q, want %q", phases, got, want)
		}
	}
}
