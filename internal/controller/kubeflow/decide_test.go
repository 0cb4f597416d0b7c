package kubeflow

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
)

// claimed is the status of a job that Muster runs, with further conditions.
func claimed(kinds ...kubeflowv1.ConditionType) kubeflowv1.JobStatus {
	s := kubeflowv1.JobStatus{Conditions: []kubeflowv1.Condition{{Type: kubeflowv1.JobCreated, Status: "True", Reason: "TFJobCreated", Message: claimWords}}}
	for _, k := range kinds {
		done := at(0)
		s.Conditions = append(s.Conditions, kubeflowv1.Condition{Type: k, Status: "True"})
		s.CompletionTime = &done
	}
	return s
}

// begun is the status of a job that the training operator runs.
func begun() kubeflowv1.JobStatus {
	return kubeflowv1.JobStatus{Conditions: []kubeflowv1.Condition{{Type: kubeflowv1.JobCreated, Status: "True", Reason: "TFJobCreated", Message: "TFJob mnist is created."}}}
}

func TestWhoseJobItIs(t *testing.T) {
	tests := []struct {
		name, manager string
		status        kubeflowv1.JobStatus
		open          bool
		// mine is true where the job's own TrainingJob exists.
		mine  bool
		alone bool
	}{
		{name: "nobody is named and the door is open", open: true},
		{name: "nobody is named and the door is closed", alone: true},
		{name: "the operator is named, which is the default, and the door is open", manager: kubeflowv1.ManagedByTrainingOperator, open: true},
		{name: "the operator is named and the door is closed", manager: kubeflowv1.ManagedByTrainingOperator, alone: true},
		{name: "Muster is named, whatever the door", manager: kubeflowv1.ManagedByMuster},
		{name: "somebody else is named", manager: "kueue.x-k8s.io/multikueue", open: true, alone: true},
		{name: "somebody else has begun", status: begun(), open: true, alone: true},
		{name: "it was claimed before the door closed", status: claimed()},
		{name: "it is run already, and its status was emptied", mine: true},
		{name: "it was claimed, but names somebody else", manager: "kueue.x-k8s.io/multikueue", status: claimed(), open: true, alone: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := read(t, mnist)
			j.status = tt.status
			if tt.manager != "" {
				j.policy.ManagedBy = &tt.manager
			}
			o := observed{now: start, job: j, open: tt.open}
			if tt.mine {
				o.training = made(j)
			}
			d := decide(o)
			if d.alone != tt.alone {
				t.Fatalf("alone: %v, want %v", d.alone, tt.alone)
			}
			if d.alone && (d.create != nil || d.claim || len(d.services) > 0 || len(d.status.Conditions) > 0) {
				t.Errorf("something is done with a job of somebody else: %+v", d)
			}
		})
	}
}

// TestManagerOfWhatCannotBeRead is known even so.
func TestManagerOfWhatCannotBeRead(t *testing.T) {
	text := with(t, mnist, "spec:\n", "spec:\n  runPolicy: {managedBy: other/one, suspend: perhaps}\n")
	j := read(t, text)
	if len(j.problems) == 0 || j.manager() != "other/one" || j.Name != "mnist" {
		t.Errorf("problems %q, manager %q, name %q", j.problems, j.manager(), j.Name)
	}
	u := manifest(t, mnist)
	u.Object["status"] = map[string]any{"startTime": "yesterday"}
	if d := decide(observed{now: start, job: newJob(doors[0], u), open: true}); !d.alone {
		t.Error("a status that Muster did not write is overwritten")
	}
}

func TestDecide(t *testing.T) {
	broken := with(t, mnist, "spec:\n", "spec:\n  pods: 3\n")
	stranger := func(owner *metav1.OwnerReference) func(*observed) {
		return func(o *observed) {
			o.training = made(o.job)
			o.training.OwnerReferences = nil
			if owner != nil {
				o.training.OwnerReferences = []metav1.OwnerReference{*owner}
			}
		}
	}
	yes := true
	tests := []struct {
		name, text string
		status     kubeflowv1.JobStatus
		edit       func(*observed)
		// want is what is done: claim, create, patch, services, delete.
		want, shown string
		message     string
		after       time.Duration
	}{
		{
			name: "new", text: mnist, edit: func(*observed) {},
			want: "claim create services:6", shown: "+TFJobCreated",
		},
		{
			name: "claimed", text: mnist, status: claimed(), edit: func(*observed) {},
			want: "create services:6", shown: "+TFJobCreated",
		},
		{
			name: "run", text: mnist, status: claimed(),
			edit: func(o *observed) {
				o.training = made(o.job)
				o.services = map[string]bool{"mnist-ps-0": true, "mnist-ps-1": true, "mnist-worker-0": true, "mnist-worker-1": true, "mnist-worker-3": true}
			},
			want: "services:1", shown: "+TFJobCreated",
		},
		{
			name: "suspended since", text: with(t, mnist, "spec:\n", "spec:\n  runPolicy: {suspend: true}\n"), status: claimed(),
			edit: func(o *observed) { o.training = made(read(t, mnist)) },
			want: "patch:suspend services:6", shown: "+TFJobCreated",
		},
		{
			name: "suspended by hand in the TrainingJob stays so", text: mnist, status: claimed(),
			edit: func(o *observed) {
				o.training = made(o.job)
				o.training.Spec.Suspend = true
			},
			want: "services:6", shown: "+TFJobCreated",
		},
		{
			name: "it cannot be run", text: broken, edit: func(*observed) {},
			want: "claim", shown: "+TFJobCreated +TFJobFailedValidation", message: "spec.pods is not a field",
		},
		{
			name: "it cannot be run as it is now, and runs as it was", text: broken, status: claimed(),
			edit: func(o *observed) { o.training = made(read(t, mnist)) },
			want: "services:6", shown: "+TFJobCreated", message: "Not heeded: spec.pods is not a field",
		},
		{
			name: "the name is taken", text: mnist, edit: stranger(nil),
			want: "claim", shown: "+TFJobCreated", message: "a TrainingJob mnist exists that is not this job's; delete it (muster delete mnist)",
		},
		{
			name: "the name is another kind's", text: mnist, edit: stranger(&metav1.OwnerReference{Kind: "PyTorchJob", Name: "mnist", UID: "x", Controller: &yes}),
			want: "claim", shown: "+TFJobCreated", message: "a TrainingJob mnist exists that belongs to the PyTorchJob mnist",
		},
		{
			name: "an earlier job has the name", text: mnist, edit: stranger(&metav1.OwnerReference{Kind: "TFJob", Name: "mnist", UID: "before", Controller: &yes}),
			want: "claim", shown: "+TFJobCreated", message: "an earlier job of this name is not gone yet",
		},
		{
			name: "ended", text: mnist, status: claimed(kubeflowv1.JobSucceeded), edit: func(*observed) {},
			want: "", shown: "+TFJobCreated +",
		},
		{
			name: "ended, to be kept for a while", text: with(t, mnist, "spec:\n", "spec:\n  runPolicy: {ttlSecondsAfterFinished: 60}\n"), status: claimed(kubeflowv1.JobFailed),
			edit: func(o *observed) { o.now = at(20).Time }, want: "", shown: "+TFJobCreated +", after: 40 * time.Second,
		},
		{
			name: "ended, its time has passed", text: with(t, mnist, "spec:\n", "spec:\n  runPolicy: {ttlSecondsAfterFinished: 60}\n"), status: claimed(kubeflowv1.JobFailed),
			edit: func(o *observed) { o.now = at(60).Time }, want: "delete", shown: "+TFJobCreated +",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := observed{now: start, job: read(t, tt.text), open: true}
			o.job.status = tt.status
			tt.edit(&o)
			d := decide(o)
			if diff := cmp.Diff(tt.want, done(d)) + cmp.Diff(tt.shown, show(&d.status)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if all := said(&d.status); !strings.Contains(all, tt.message) {
				t.Errorf("%q, want %q", all, tt.message)
			}
			if d.lookAgain != tt.after {
				t.Errorf("looks again after %s, want %s", d.lookAgain, tt.after)
			}
		})
	}
}

// done is what a decision does, in words.
func done(d decision) string {
	var out []string
	if d.claim {
		out = append(out, "claim")
	}
	if d.create != nil {
		out = append(out, "create")
	}
	if d.patch != nil {
		what := "patch:other"
		if d.patch.to.Spec.Suspend != d.patch.from.Spec.Suspend {
			what = "patch:suspend"
		}
		out = append(out, what)
	}
	if n := len(d.services); n > 0 {
		out = append(out, "services:"+string(rune('0'+n)))
	}
	if d.deleteJob {
		out = append(out, "delete")
	}
	return strings.Join(out, " ")
}

func said(s *kubeflowv1.JobStatus) string {
	var out []string
	for _, c := range s.Conditions {
		out = append(out, c.Message)
	}
	return strings.Join(out, "\n")
}

func TestEventsAreFew(t *testing.T) {
	j := read(t, with(t, send, "{spec: {containers", "{spec: {schedulerName: volcano, containers"))
	training := made(j)
	var got []string
	for _, phase := range []v1alpha1.JobPhase{"", v1alpha1.JobWaiting, v1alpha1.JobRunning, v1alpha1.JobWaiting, v1alpha1.JobRunning, v1alpha1.JobSucceeded, v1alpha1.JobSucceeded} {
		training.Status.Phase = phase
		after := statusFor(observed{now: start, job: j, training: training}, "")
		for _, e := range happened(j, &after) {
			got = append(got, e.reason)
		}
		j.status = after
	}
	if diff := cmp.Diff([]string{"WithoutEffect", "PyTorchJobRestarting", "PyTorchJobSucceeded"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
