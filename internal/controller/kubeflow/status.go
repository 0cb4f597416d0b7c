package kubeflow

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
)

// claimWords begin the message of the condition Created of every job that
// Muster runs. They are how it knows its jobs from those of others.
const claimWords = kubeflowv1.MessageClaimed

// conditionCurrent is a TrainingJob's condition that is False, and says why,
// where it does not run as its spec says now.
const conditionCurrent = "Current"

// ours reports whether a status says that Muster runs the job.
func ours(s *kubeflowv1.JobStatus) bool {
	c := condition(s, kubeflowv1.JobCreated)
	return c != nil && strings.HasPrefix(c.Message, claimWords)
}

// statusFor is the job's status, from what was observed alone. blocked is what
// keeps the TrainingJob from being made, if anything does.
func statusFor(o observed, blocked string) kubeflowv1.JobStatus {
	w := writer{job: o.job, status: o.job.status.DeepCopy(), now: metav1.NewTime(o.now)}
	training := o.ours()
	if !finished(w.status) {
		w.say(kubeflowv1.JobCreated, corev1.ConditionTrue, "Created", claim(o.job, training, blocked))
	}
	switch {
	case training != nil:
		w.follow(training)
	case finished(w.status):
	default:
		w.count(&v1alpha1.TrainingJob{})
		if len(o.job.problems) == 0 {
			break
		}
		w.end(kubeflowv1.JobFailed, kubeflowv1.ReasonFailedValidation, "it cannot be run as it is written: "+o.job.refusal().Error(), w.now)
	}
	if !apiequality.Semantic.DeepEqual(*w.status, o.job.status) {
		w.status.LastReconcileTime = &w.now
	}
	return *w.status
}

// claim is the message of the condition Created.
func claim(j *job, t *v1alpha1.TrainingJob, blocked string) string {
	parts := []string{claimWords}
	problems := slices.Clone(j.problems)
	if t != nil {
		switch t.Status.Phase {
		case v1alpha1.JobPreparing, v1alpha1.JobWaiting:
			blocked = t.Status.Message
		}
		if c := meta.FindStatusCondition(t.Status.Conditions, conditionCurrent); c != nil && c.Status == metav1.ConditionFalse {
			problems = append(problems, c.Message)
		}
	}
	if blocked != "" {
		parts = append(parts, "Not yet: "+blocked+".")
	}
	if len(j.notes) > 0 {
		parts = append(parts, "Without effect: "+strings.Join(j.notes, ", ")+".")
	}
	if len(problems) > 0 {
		parts = append(parts, "Not heeded: "+strings.Join(problems, "; ")+".")
	}
	return strings.Join(parts, " ")
}

// writer puts a status together.
type writer struct {
	job    *job
	status *kubeflowv1.JobStatus
	now    metav1.Time
}

// follow mirrors the TrainingJob.
func (w *writer) follow(t *v1alpha1.TrainingJob) {
	s := w.status
	if t.Status.StartTime != nil {
		s.StartTime = t.Status.StartTime.DeepCopy()
	}
	if !finished(s) {
		w.phase(t)
	}
	w.count(t)
}

// phase puts the TrainingJob's phase into the job's terms.
func (w *writer) phase(t *v1alpha1.TrainingJob) {
	s, name := w.status, fmt.Sprintf("%s %s/%s", w.job.door.kind, w.job.Namespace, w.job.Name)
	if holds(s, kubeflowv1.JobSuspended) && t.Status.Phase != v1alpha1.JobSuspended {
		w.say(kubeflowv1.JobSuspended, corev1.ConditionFalse, "Resumed", name+" is resumed.")
	}
	switch t.Status.Phase {
	case v1alpha1.JobRunning:
		w.say(kubeflowv1.JobRunning, corev1.ConditionTrue, "Running", strings.TrimSpace(name+" is running. "+t.Status.Message))
	case v1alpha1.JobSuspended:
		if condition(s, kubeflowv1.JobRunning) != nil {
			w.say(kubeflowv1.JobRunning, corev1.ConditionFalse, "Suspended", name+" is suspended.")
		}
		w.say(kubeflowv1.JobSuspended, corev1.ConditionTrue, "Suspended", name+" is suspended.")
	case v1alpha1.JobSucceeded:
		w.end(kubeflowv1.JobSucceeded, "Succeeded", name+" successfully completed: "+t.Status.Message+".", finishTime(t, w.now))
	case v1alpha1.JobFailed:
		w.end(kubeflowv1.JobFailed, "Failed", name+" has failed: "+t.Status.Message+".", finishTime(t, w.now))
	default:
		// It waits or starts: anew, if it ran before. What was suspended did
		// not fail.
		if holds(s, kubeflowv1.JobRunning) || condition(s, kubeflowv1.JobRestarting) != nil {
			w.say(kubeflowv1.JobRestarting, corev1.ConditionTrue, "Restarting", strings.TrimSpace(name+" is restarting. "+t.Status.Message))
		}
	}
}

func finishTime(t *v1alpha1.TrainingJob, now metav1.Time) metav1.Time {
	if t.Status.FinishTime != nil {
		return *t.Status.FinishTime
	}
	return now
}

// end says that the job succeeded or failed, once and for all.
func (w *writer) end(kind kubeflowv1.ConditionType, reason, message string, at metav1.Time) {
	w.status.CompletionTime = &at
	w.say(kind, corev1.ConditionTrue, reason, message)
}

// count writes the replica statuses. Of a job that has succeeded what was
// stopped counts as succeeded, as the training operator counts it; what a job
// leaves running counts as what it is.
func (w *writer) count(t *v1alpha1.TrainingJob) {
	w.status.ReplicaStatuses = map[kubeflowv1.ReplicaType]*kubeflowv1.ReplicaStatus{}
	for _, r := range w.job.replicas {
		counts := &kubeflowv1.ReplicaStatus{Selector: labels.SelectorFromSet(w.job.labels(r)).String()}
		for i := range t.Status.Roles {
			if role := &t.Status.Roles[i]; role.Name == r.role() {
				counts.Active, counts.Succeeded, counts.Failed = role.Running, role.Succeeded, role.Failed
			}
		}
		if holds(w.status, kubeflowv1.JobSucceeded) && w.job.cleanUp() != v1alpha1.CleanUpNone {
			counts.Active, counts.Succeeded, counts.Failed = 0, r.count, 0
		}
		w.status.ReplicaStatuses[r.kind] = counts
	}
}

// say sets a condition and makes it the last one, unless its status and reason
// are what they were. Running and Restarting take one another's place; what has
// ended runs no more.
func (w *writer) say(kind kubeflowv1.ConditionType, status corev1.ConditionStatus, reason, message string) {
	next := kubeflowv1.Condition{
		Type: kind, Status: status, Reason: w.job.door.kind + reason, Message: short(message), LastUpdateTime: w.now, LastTransitionTime: w.now,
	}
	if have := condition(w.status, kind); have != nil {
		if have.Status == status && have.Reason == next.Reason {
			if have.Message != next.Message {
				have.Message, have.LastUpdateTime = next.Message, w.now
			}
			return
		}
		if have.Status == status {
			next.LastTransitionTime = have.LastTransitionTime
		}
	}
	var rest []kubeflowv1.Condition
	for _, c := range w.status.Conditions {
		switch {
		case c.Type == kind:
		case kind == kubeflowv1.JobRestarting && c.Type == kubeflowv1.JobRunning, kind == kubeflowv1.JobRunning && c.Type == kubeflowv1.JobRestarting:
		case over(kind) && (c.Type == kubeflowv1.JobRunning || c.Type == kubeflowv1.JobRestarting) && c.Status == corev1.ConditionTrue:
			c.Status, c.LastUpdateTime, c.LastTransitionTime = corev1.ConditionFalse, w.now, w.now
			rest = append(rest, c)
		default:
			rest = append(rest, c)
		}
	}
	rest = append(rest, next)
	w.status.Conditions = rest
}

// maxMessage bounds what is said in a condition or an event.
const maxMessage = 4096

func short(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + "..."
}

func over(kind kubeflowv1.ConditionType) bool {
	return kind == kubeflowv1.JobSucceeded || kind == kubeflowv1.JobFailed
}

func condition(s *kubeflowv1.JobStatus, kind kubeflowv1.ConditionType) *kubeflowv1.Condition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == kind {
			return &s.Conditions[i]
		}
	}
	return nil
}

func holds(s *kubeflowv1.JobStatus, kind kubeflowv1.ConditionType) bool {
	c := condition(s, kind)
	return c != nil && c.Status == corev1.ConditionTrue
}

func finished(s *kubeflowv1.JobStatus) bool {
	return holds(s, kubeflowv1.JobSucceeded) || holds(s, kubeflowv1.JobFailed)
}

// trainingFinished reports whether the TrainingJob's end is decided.
func trainingFinished(t *v1alpha1.TrainingJob) bool {
	return meta.IsStatusConditionTrue(t.Status.Conditions, v1alpha1.ConditionFinished)
}
