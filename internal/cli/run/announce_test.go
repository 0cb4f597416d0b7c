package run

import (
	"bytes"
	"errors"
	"net"
	"net/url"
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

func TestAnnouncerTellsOfLostContact(t *testing.T) {
	dial := &url.Error{Op: "Get", URL: "https://127.0.0.1:6443/apis/muster.dev", Err: &net.OpError{
		Op: "dial", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443}, Err: errors.New("connection refused"),
	}}
	for err, want := range map[error]string{
		dial:                   "Lost contact: trying again; the job goes on meanwhile (nobody answers at 127.0.0.1:6443: `muster up --detach` starts Muster again)\n",
		errors.New("too slow"): "Lost contact: trying again; the job goes on meanwhile (too slow)\n",
	} {
		var out bytes.Buffer
		newAnnouncer(&out, terminal.Coloured(false)).lost(err)
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("told of %v (-want +got):\n%s", err, diff)
		}
	}
}
