package kubeflow

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubeflowv1 "github.com/muster-dev/muster/api/kubeflow/v1"
	"github.com/muster-dev/muster/api/v1alpha1"
)

// observed is everything that a decision is made from.
type observed struct {
	now time.Time
	job *job
	// training is the TrainingJob of the job's name, whoever made it.
	training *v1alpha1.TrainingJob
	// services are those with the job's label, by name.
	services map[string]bool
	// open is whether the kind's jobs that name no manager are Muster's. It is
	// asked only where needsDoor says so.
	open bool
}

// decision is what is to be done.
type decision struct {
	// alone is true for a job that is somebody else's: nothing is written.
	alone bool
	// claim asks for the status to be written before anything else.
	claim    bool
	create   *v1alpha1.TrainingJob
	patch    *trainingPatch
	services []*corev1.Service
	// deleteJob ends a finished job whose time to live has passed.
	deleteJob bool
	status    kubeflowv1.JobStatus
	// lookAgain is when time alone will call for another decision; 0: never.
	lookAgain time.Duration
}

type trainingPatch struct{ from, to *v1alpha1.TrainingJob }

// ours is the job's own TrainingJob.
func (o observed) ours() *v1alpha1.TrainingJob {
	if o.training != nil && metav1.IsControlledBy(o.training, o.job) {
		return o.training
	}
	return nil
}

// manager is who the job names; empty: nobody.
func (j *job) manager() string {
	if j.policy.ManagedBy == nil {
		return ""
	}
	return *j.policy.ManagedBy
}

// needsDoor reports whether it depends on the door whose job it is: it names
// nobody in particular, and nobody has begun.
func (o observed) needsDoor() bool {
	switch o.job.manager() {
	case "", kubeflowv1.ManagedByTrainingOperator:
		return o.ours() == nil && len(o.job.status.Conditions) == 0
	}
	return false
}

// mine reports whether the job is Muster's to run. A job that somebody else
// has begun is not, whatever the door.
func (o observed) mine() bool {
	if o.job.strange {
		return false
	}
	switch o.job.manager() {
	case kubeflowv1.ManagedByMuster:
		return true
	case "", kubeflowv1.ManagedByTrainingOperator:
		return o.ours() != nil || ours(&o.job.status) || o.needsDoor() && o.open
	}
	return false
}

// decide is the whole of the controller's judgement.
func decide(o observed) decision {
	// 1. Whose it is.
	if !o.mine() {
		return decision{alone: true}
	}
	d := decision{claim: !ours(&o.job.status)}
	training, blocked := o.ours(), ""
	switch {
	case finished(&o.job.status):
		// 2. A finished job waits for its time to live to pass.
		if ttl, at := o.job.policy.TTLSecondsAfterFinished, o.job.status.CompletionTime; ttl != nil && at != nil {
			left := at.Add(time.Duration(*ttl) * time.Second).Sub(o.now)
			d.deleteJob, d.lookAgain = left <= 0, max(0, left)
		}
	case training != nil:
		// 3. A job that is run is made to follow what it asks for, as long as
		// that can be run.
		d.services = o.missing()
		d.patch = o.steer(training)
	case len(o.job.problems) > 0:
		// 4. One that cannot be run is refused.
	default:
		// 5. One that is not run yet is, unless something has its name.
		if blocked = o.obstacle(); blocked == "" {
			d.create, d.services = o.job.trainingJob(), o.missing()
		}
	}
	d.status = statusFor(o, blocked)
	return d
}

// missing are the Services that the job lacks.
func (o observed) missing() []*corev1.Service {
	var out []*corev1.Service
	for _, r := range o.job.replicas {
		for i := range r.count {
			if s := o.job.service(r, i); !o.services[s.Name] {
				out = append(out, s)
			}
		}
	}
	return out
}

// steer passes on what the job asks for now, if that is not what it asked for
// last.
func (o observed) steer(training *v1alpha1.TrainingJob) *trainingPatch {
	if len(o.job.problems) > 0 || trainingFinished(training) || !training.DeletionTimestamp.IsZero() {
		return nil
	}
	want := o.job.trainingJob()
	if training.Annotations[AnnotationSpec] == want.Annotations[AnnotationSpec] {
		return nil
	}
	to := training.DeepCopy()
	to.Spec = want.Spec
	if to.Annotations == nil {
		to.Annotations = map[string]string{}
	}
	to.Annotations[AnnotationSpec] = want.Annotations[AnnotationSpec]
	return &trainingPatch{from: training, to: to}
}

// obstacle says what has the name that the TrainingJob is to have.
func (o observed) obstacle() string {
	t := o.training
	if t == nil {
		return ""
	}
	if by := metav1.GetControllerOf(t); by != nil {
		if by.Kind == o.job.door.kind && by.Name == o.job.Name {
			return "an earlier job of this name is not gone yet"
		}
		return fmt.Sprintf("a TrainingJob %s exists that belongs to the %s %s; delete that, or give this one another name", t.Name, by.Kind, by.Name)
	}
	return fmt.Sprintf("a TrainingJob %s exists that is not this job's; delete it (muster delete %s), or give this one another name", t.Name, t.Name)
}

// news is an event to be told.
type news struct{ kind, reason, action, note string }

// happened compares a job with its new status: the few things that are worth
// an event.
func happened(j *job, after *kubeflowv1.JobStatus) []news {
	before := &j.status
	var out []news
	if len(before.Conditions) == 0 && len(j.notes) > 0 {
		out = append(out, news{corev1.EventTypeWarning, "WithoutEffect", "Accept", condition(after, kubeflowv1.JobCreated).Message})
	}
	for _, e := range []struct {
		kind  kubeflowv1.ConditionType
		level string
	}{{kubeflowv1.JobSucceeded, corev1.EventTypeNormal}, {kubeflowv1.JobFailed, corev1.EventTypeWarning}, {kubeflowv1.JobRestarting, corev1.EventTypeWarning}} {
		if c := condition(after, e.kind); c != nil && c.Status == corev1.ConditionTrue && !holds(before, e.kind) {
			out = append(out, news{e.level, c.Reason, string(e.kind), c.Message})
		}
	}
	for i := range out {
		if most := 1000; len(out[i].note) > most {
			out[i].note = out[i].note[:most] + "..."
		}
	}
	return out
}
