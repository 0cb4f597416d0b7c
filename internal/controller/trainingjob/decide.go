package trainingjob

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/denial"
)

// observed is everything that a decision is made from.
type observed struct {
	now     time.Time
	job     *v1alpha1.TrainingJob
	gang    *v1alpha1.Gang
	service *metav1.PartialObjectMetadata
	claims  map[string]*corev1.PersistentVolumeClaim
	// prepared is set where needsPreparation says so.
	prepared preparation
}

// decision is what is to be done.
type decision struct {
	create    []client.Object
	patchGang *gangPatch
	deleteJob bool
	status    v1alpha1.TrainingJobStatus
	// lookAgain is when time alone will call for another decision; 0: never.
	lookAgain time.Duration
}

type gangPatch struct{ from, to *v1alpha1.Gang }

// needsPreparation is true while the job is to be started and is not.
func (o observed) needsPreparation() bool {
	return o.gang == nil && !finished(o.job) && !o.job.Spec.Suspend
}

// ours is the job's own gang, alive or ending.
func (o observed) ours() *v1alpha1.Gang {
	if o.gang != nil && belongs(o.job, o.gang) {
		return o.gang
	}
	return nil
}

// decide is the whole of the controller's judgement.
func decide(o observed) decision {
	d := decision{}
	blocked := ""
	gang := o.ours()
	switch {
	case finished(o.job):
		// 1. A finished job waits for its time to live to pass.
		if at, ok := expiry(o.job, o.gang); ok {
			d.deleteJob, d.lookAgain = due(o.now, at)
		}
	case gang != nil && o.job.Unreadable != "":
		// 2. A gang whose job cannot be read any more goes on as it was made.
	case gang != nil && gang.DeletionTimestamp.IsZero():
		// 3. A job with a gang follows it, and makes it follow.
		d.create = missing(o)
		d.patchGang, d.lookAgain = steer(o, gang)
	case gang == nil && o.job.Spec.Suspend:
		// 4. A job that may not run prepares nothing.
	default:
		// 5. A job without one gets one once all is ready and nothing is in
		// the way.
		if blocked = obstacle(o); blocked == "" && o.needsPreparation() && o.prepared.ready() {
			d.create = append(missing(o), gangFor(o.job, o.prepared))
		}
	}
	d.status = statusFor(o, blocked)
	return d
}

// due says whether the time has come, and if not, how long it is away.
func due(now, at time.Time) (bool, time.Duration) {
	if now.Before(at) {
		return false, at.Sub(now)
	}
	return true, 0
}

// missing are the claims and the Service that the job lacks.
func missing(o observed) []client.Object {
	var out []client.Object
	for _, c := range claimsOf(o.job) {
		if o.claims[c.Name] == nil {
			out = append(out, c)
		}
	}
	if o.service == nil && named(o.job) {
		out = append(out, serviceFor(o.job))
	}
	return out
}

// steer passes on to the gang what may change while it runs, and stops it once
// its time is over.
func steer(o observed, gang *v1alpha1.Gang) (*gangPatch, time.Duration) {
	if ended(gang) {
		return nil, 0
	}
	to := gang.DeepCopy()
	to.Spec.Suspend = o.job.Spec.Suspend
	to.Spec.BackoffLimit = backoffLimit(o.job)
	forecast(&to.Spec, o.job)
	if placeless(gang) && queueOf(gang) != queue(o.job) {
		to.Spec.Queue = queue(o.job)
	}
	var wait time.Duration
	from, counts := since(o, gang)
	note(to, from, counts)
	if counts && gang.Spec.Stop == "" && gang.Status.EvictedTime == nil {
		var over bool
		if over, wait = due(o.now, from.Add(away(gang)).Add(limit(o.job))); over {
			to.Spec.Stop = overdue(o.job)
		}
	}
	if apiequality.Semantic.DeepEqual(to.Spec, gang.Spec) && to.Annotations[AnnotationSince] == gang.Annotations[AnnotationSince] {
		return nil, wait
	}
	return &gangPatch{from: gang, to: to}, wait
}

// obstacle says what lies where the job's own objects are to be.
func obstacle(o observed) string {
	type found struct {
		object     client.Object
		kind, verb string
		advice     string
	}
	var all []found
	if o.gang != nil {
		all = append(all, found{o.gang, "Gang", "gang", "or give the job another name"})
	}
	if o.service != nil && named(o.job) {
		all = append(all, found{o.service, "Service", "service", "or give the job another name"})
	}
	for _, c := range claimsOf(o.job) {
		if claim := o.claims[c.Name]; claim != nil {
			all = append(all, found{claim, "PersistentVolumeClaim", "pvc", "or use it by naming it as claim in the job, or give the job another name"})
		}
	}
	for _, f := range all {
		name := f.object.GetName()
		switch {
		case !f.object.GetDeletionTimestamp().IsZero():
			return fmt.Sprintf("waiting until an earlier run is gone; its %s %s is still there", f.kind, name)
		case belongs(o.job, f.object):
		case ofEarlier(o.job, f.object):
			return fmt.Sprintf("waiting until an earlier job of this name is gone; its %s %s is still there", f.kind, name)
		default:
			return fmt.Sprintf("a %s named %s exists that is not this job's; delete it (kubectl -n %s delete %s %s), %s", f.kind, name, o.job.Namespace, f.verb, name, f.advice)
		}
	}
	return ""
}

// belongs reports whether the job made the object.
func belongs(job *v1alpha1.TrainingJob, o client.Object) bool {
	return metav1.IsControlledBy(o, job)
}

// ofEarlier reports whether a job of the same name, which is gone, made the
// object: the garbage collector will take it.
func ofEarlier(job *v1alpha1.TrainingJob, o client.Object) bool {
	ref := metav1.GetControllerOf(o)
	return ref != nil && ref.Kind == "TrainingJob" && ref.Name == job.Name && ref.UID != job.UID
}

// finished reports whether the job's end is decided and written down.
func finished(job *v1alpha1.TrainingJob) bool {
	return meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionFinished)
}

// ended reports whether the gang's outcome is decided.
func ended(gang *v1alpha1.Gang) bool {
	return gang.Status.Outcome != "" || gang.Status.Phase == v1alpha1.GangSucceeded || gang.Status.Phase == v1alpha1.GangFailed
}

// refused notes in the status that the API server did not take what was
// decided. What it finds invalid fails the job, because it would tomorrow as
// well; a quota may change.
func (d *decision) refused(o observed, err error) {
	s := &d.status
	switch {
	case denial.Never(err) && o.gang == nil:
		finish(s, o, v1alpha1.JobFailed, err.Error())
	case denial.NotNow(err) || denial.Never(err):
		s.Message = err.Error()
	}
}
