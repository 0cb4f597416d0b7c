package kubeflow

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
)

// show is the conditions in one line, the newest last.
func show(s *kubeflowv1.JobStatus) string {
	var out []string
	for _, c := range s.Conditions {
		sign := "+"
		if c.Status != "True" {
			sign = "-"
		}
		out = append(out, sign+c.Reason)
	}
	return strings.Join(out, " ")
}

// tell is a life of a TrainingJob: each step its phase and message.
type step struct {
	phase   v1alpha1.JobPhase
	message string
	want    string
}

func TestConditionsFollow(t *testing.T) {
	tests := []struct {
		name, text string
		steps      []step
	}{
		{"it succeeds", mnist, []step{
			{"", "", "+TFJobCreated"},
			{v1alpha1.JobWaiting, "no room", "+TFJobCreated"},
			{v1alpha1.JobStarting, "", "+TFJobCreated"},
			{v1alpha1.JobRunning, "", "+TFJobCreated +TFJobRunning"},
			{v1alpha1.JobSucceeded, "worker-0 succeeded", "+TFJobCreated -TFJobRunning +TFJobSucceeded"},
			{v1alpha1.JobRunning, "what is over stays over", "+TFJobCreated -TFJobRunning +TFJobSucceeded"},
		}},
		{"it fails before it runs", send, []step{
			{v1alpha1.JobFailed, "no node can run it", "+PyTorchJobCreated +PyTorchJobFailed"},
		}},
		{"it restarts", send, []step{
			{v1alpha1.JobRunning, "", "+PyTorchJobCreated +PyTorchJobRunning"},
			{v1alpha1.JobWaiting, "worker-1 ended with exit code 1", "+PyTorchJobCreated +PyTorchJobRestarting"},
			{v1alpha1.JobStarting, "", "+PyTorchJobCreated +PyTorchJobRestarting"},
			{v1alpha1.JobRunning, "", "+PyTorchJobCreated +PyTorchJobRunning"},
			{v1alpha1.JobFailed, "too often", "+PyTorchJobCreated -PyTorchJobRunning +PyTorchJobFailed"},
		}},
		{"it is over while it restarts", send, []step{
			{v1alpha1.JobRunning, "", "+PyTorchJobCreated +PyTorchJobRunning"},
			{v1alpha1.JobWaiting, "", "+PyTorchJobCreated +PyTorchJobRestarting"},
			{v1alpha1.JobFailed, "", "+PyTorchJobCreated -PyTorchJobRestarting +PyTorchJobFailed"},
		}},
		{"it is suspended and goes on", mnist, []step{
			{v1alpha1.JobRunning, "", "+TFJobCreated +TFJobRunning"},
			{v1alpha1.JobSuspended, "", "+TFJobCreated -TFJobSuspended +TFJobSuspended"},
			{v1alpha1.JobWaiting, "no room", "+TFJobCreated -TFJobSuspended -TFJobResumed"},
			{v1alpha1.JobRunning, "", "+TFJobCreated -TFJobResumed +TFJobRunning"},
		}},
		{"it is suspended from the start", mnist, []step{
			{v1alpha1.JobSuspended, "", "+TFJobCreated +TFJobSuspended"},
			{v1alpha1.JobRunning, "", "+TFJobCreated -TFJobResumed +TFJobRunning"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := read(t, tt.text)
			training := made(j)
			for i, s := range tt.steps {
				training.Status.Phase, training.Status.Message = s.phase, s.message
				j.status = statusFor(observed{now: start.Add(time.Duration(i) * time.Second), job: j, training: training}, "")
				if got := show(&j.status); got != s.want {
					t.Fatalf("step %d, %s: %s, want %s", i, s.phase, got, s.want)
				}
			}
		})
	}
}

func TestReplicaStatuses(t *testing.T) {
	counts := []v1alpha1.RoleStatus{{Name: "worker", Wanted: 4, Running: 2, Succeeded: 1, Failed: 1}, {Name: "ps", Wanted: 2, Running: 2}}
	none := with(t, mnist, "spec:\n", "spec:\n  runPolicy: {cleanPodPolicy: None}\n")
	tests := []struct {
		name, text string
		phase      v1alpha1.JobPhase
		want       string
	}{
		{"running", mnist, v1alpha1.JobRunning, "Worker 2/1/1 PS 2/0/0"},
		{"what is stopped at the end succeeded", mnist, v1alpha1.JobSucceeded, "Worker 0/4/0 PS 0/2/0"},
		{"what goes on at the end is active", none, v1alpha1.JobSucceeded, "Worker 2/1/1 PS 2/0/0"},
		{"failed", mnist, v1alpha1.JobFailed, "Worker 2/1/1 PS 2/0/0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := read(t, tt.text)
			training := made(j)
			training.Status.Phase, training.Status.Roles = tt.phase, counts
			s := statusFor(observed{now: start, job: j, training: training}, "")
			var got []string
			for _, kind := range []kubeflowv1.ReplicaType{"Worker", "PS"} {
				r := s.ReplicaStatuses[kind]
				got = append(got, fmt.Sprintf("%s %d/%d/%d", kind, r.Active, r.Succeeded, r.Failed))
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got, want := s.ReplicaStatuses["PS"].Selector, "training.kubeflow.org/job-name=mnist,training.kubeflow.org/operator-name=tfjob-controller,training.kubeflow.org/replica-type=ps"; got != want {
				t.Errorf("selector %s, want %s", got, want)
			}
		})
	}
}

func TestTimes(t *testing.T) {
	j := read(t, mnist)
	training := made(j)
	begun, ended := at(5), at(60)
	training.Status.Phase, training.Status.StartTime = v1alpha1.JobRunning, &begun
	j.status = statusFor(observed{now: at(6).Time, job: j, training: training}, "")
	again := statusFor(observed{now: at(30).Time, job: j, training: training}, "")
	if diff := cmp.Diff(j.status, again); diff != "" {
		t.Errorf("nothing happened, and the status changes:\n%s", diff)
	}
	training.Status.Phase, training.Status.FinishTime = v1alpha1.JobSucceeded, &ended
	j.status = statusFor(observed{now: at(61).Time, job: j, training: training}, "")
	for name, pair := range map[string][2]*metav1.Time{
		"start": {j.status.StartTime, &begun}, "completion": {j.status.CompletionTime, &ended}, "reconcile": {j.status.LastReconcileTime, new(metav1.Time)},
	} {
		if name == "reconcile" {
			*pair[1] = at(61)
		}
		if !pair[0].Equal(pair[1]) {
			t.Errorf("%s time %v, want %v", name, pair[0], pair[1])
		}
	}
}

// TestWhyItWaits puts into the condition Created what keeps the job.
func TestWhyItWaits(t *testing.T) {
	j := read(t, with(t, send, "{spec: {containers", "{spec: {schedulerName: volcano, containers"))
	training := made(j)
	training.Status.Phase, training.Status.Message = v1alpha1.JobWaiting, "no GPU is free"
	training.Status.Conditions = []metav1.Condition{{Type: "Current", Status: metav1.ConditionFalse, Message: "roles changed"}}
	s := statusFor(observed{now: start, job: j, training: training}, "")
	want := claimWords + " Not yet: no GPU is free. Without effect: spec.pytorchReplicaSpecs.Master.template.spec.schedulerName. Not heeded: roles changed."
	if got := s.Conditions[0].Message; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	j.status = s
	training.Status.Phase, training.Status.Message = v1alpha1.JobRunning, ""
	after := statusFor(observed{now: start, job: j, training: training}, "")
	if !ours(&after) || strings.Contains(after.Conditions[0].Message, "Not yet") {
		t.Errorf("%q", after.Conditions[0].Message)
	}
}
