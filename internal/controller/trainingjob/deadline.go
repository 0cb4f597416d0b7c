package trainingjob

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// deadline is when the job has run for too long, and whether there is such a
// time. It counts from the first member's start or, after a suspension, from
// the resumption: time in which the job was not allowed to run is not held
// against it.
func deadline(job *v1alpha1.TrainingJob, gang *v1alpha1.Gang) (time.Time, bool) {
	limit := job.Spec.ActiveDeadlineSeconds
	if limit == nil || gang == nil || gang.Status.StartTime == nil || job.Spec.Suspend {
		return time.Time{}, false
	}
	from := gang.Status.StartTime.Time
	if meta.IsStatusConditionTrue(job.Status.Conditions, ConditionSuspended) {
		return time.Time{}, false // resumed just now: the status will say so, and when
	}
	if resumed := meta.FindStatusCondition(job.Status.Conditions, ConditionSuspended); resumed != nil && resumed.LastTransitionTime.After(from) {
		from = resumed.LastTransitionTime.Time
	}
	return from.Add(time.Duration(*limit)*time.Second + precision), true
}

// precision is that of the times above, which are rounded down: no job is
// stopped before it had all of its time.
const precision = time.Second

// overdue is the reason that the job is stopped with.
func overdue(job *v1alpha1.TrainingJob) string {
	seconds := *job.Spec.ActiveDeadlineSeconds
	return fmt.Sprintf("stopped: it ran for longer than its limit of %s (activeDeadlineSeconds: %d)", time.Duration(seconds)*time.Second, seconds)
}

// expiry is when a finished job is deleted, and whether it ever is. A job whose
// members are still ending is not.
func expiry(job *v1alpha1.TrainingJob, gang *v1alpha1.Gang) (time.Time, bool) {
	ttl := job.Spec.TTLSecondsAfterFinished
	if ttl == nil || !finished(job) || job.Status.FinishTime == nil {
		return time.Time{}, false
	}
	if gang != nil && belongs(job, gang) && gang.Status.Phase != v1alpha1.GangSucceeded && gang.Status.Phase != v1alpha1.GangFailed {
		return time.Time{}, false
	}
	return job.Status.FinishTime.Add(time.Duration(*ttl) * time.Second), true
}
