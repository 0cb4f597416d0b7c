package run

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

func TestAnnouncerTellsOnlyWhatLasts(t *testing.T) {
	type step struct {
		phase   v1alpha1.JobPhase
		message string
		lasts   time.Duration
	}
	const refused = "node n refused worker-0: no such image"
	for name, test := range map[string]struct {
		steps []step
		want  string
	}{
		"starts at once": {
			[]step{{v1alpha1.JobWaiting, "waiting to be scheduled", 20 * time.Millisecond}, {v1alpha1.JobStarting, "its members are being started", 100 * time.Millisecond}, {v1alpha1.JobRunning, "", 0}},
			"Running: 1 member\n",
		},
		"waits": {
			[]step{{v1alpha1.JobWaiting, "waiting to be scheduled", 20 * time.Millisecond}, {v1alpha1.JobWaiting, "no node has a GPU", time.Second}, {v1alpha1.JobRunning, "", 0}},
			"Waiting: no node has a GPU\nRunning: 1 member\n",
		},
		"refused again and again": {
			[]step{{v1alpha1.JobStarting, "s", time.Second}, {v1alpha1.JobWaiting, refused, time.Second}, {v1alpha1.JobStarting, "s", time.Second}, {v1alpha1.JobWaiting, refused, time.Second}},
			"Starting: s\nWaiting: " + refused + "\n",
		},
		"ends before it settles": {
			[]step{{v1alpha1.JobWaiting, "waiting to be scheduled", time.Millisecond}, {v1alpha1.JobFailed, "no", time.Second}},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				a := newAnnouncer(&out, terminal.Coloured(false))
				job := &v1alpha1.TrainingJob{Spec: v1alpha1.TrainingJobSpec{Roles: []v1alpha1.Role{{Name: "worker"}}}}
				for _, s := range test.steps {
					job.Status.Phase, job.Status.Message = s.phase, s.message
					a.changed(job)
					time.Sleep(s.lasts)
					synctest.Wait()
				}
				a.quiet()
				time.Sleep(time.Minute)
				if diff := cmp.Diff(test.want, out.String()); diff != "" {
					t.Errorf("told (-want +got):\n%s", diff)
				}
			})
		})
	}
}
