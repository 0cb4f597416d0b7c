package trainingjob

import (
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-dev/muster/api/v1alpha1"
)

// AnnotationSince is, on the gang of a job with a time limit, the moment from
// which the limit counts, to the nanosecond. The times in statuses have whole
// seconds, and by those alone a job would be stopped up to a second late.
const AnnotationSince = "muster.dev/running-since"

// precision is that of the times in statuses, which are rounded down.
const precision = time.Second

// since is the moment from which the job's time limit counts, and whether there
// is one yet: the first member's start or, after a suspension, the resumption.
// Time in which the job was not allowed to run is not held against it; that of
// evictions is added by [away].
//
// The first look at the gang after that moment is taken for it, and noted by
// [note]: the gang's controller tells of a start within milliseconds. A look
// that comes later, because Muster did not run meanwhile, has whole seconds to
// go by, and takes the latest moment that they allow: no job is stopped before
// it had all of its time.
func since(o observed, gang *v1alpha1.Gang) (time.Time, bool) {
	if o.job.Spec.ActiveDeadlineSeconds == nil || o.job.Spec.Suspend || gang.Status.StartTime == nil {
		return time.Time{}, false
	}
	if gang.Spec.Suspend {
		return o.now, true // it is resumed now
	}
	if noted, err := time.Parse(time.RFC3339Nano, gang.Annotations[AnnotationSince]); err == nil {
		return noted, true
	}
	from := gang.Status.StartTime.Time
	if resumed := meta.FindStatusCondition(o.job.Status.Conditions, ConditionSuspended); resumed != nil && resumed.LastTransitionTime.After(from) {
		from = resumed.LastTransitionTime.Time
	}
	if latest := from.Add(precision); latest.Before(o.now) {
		return latest, true
	}
	return o.now, true
}

// away is for how long the job was kept from running by evictions since its
// time limit began to count. While it is, the limit rests.
func away(gang *v1alpha1.Gang) time.Duration {
	return time.Duration(min(gang.Status.AwaySeconds, int64(math.MaxInt64/time.Second))) * time.Second
}

// note writes the moment from which the time limit counts on the gang, or
// removes it.
func note(gang *v1alpha1.Gang, from time.Time, counts bool) {
	if !counts {
		delete(gang.Annotations, AnnotationSince)
		return
	}
	if gang.Annotations == nil {
		gang.Annotations = map[string]string{}
	}
	gang.Annotations[AnnotationSince] = from.UTC().Format(time.RFC3339Nano)
}

// limit is how long the job may run. What is longer than a duration can be,
// 292 years, is cut to that.
func limit(job *v1alpha1.TrainingJob) time.Duration {
	return time.Duration(min(*job.Spec.ActiveDeadlineSeconds, int64(math.MaxInt64/time.Second))) * time.Second
}

// overdue is the reason that the job is stopped with.
func overdue(job *v1alpha1.TrainingJob) string {
	return fmt.Sprintf("stopped: it ran for longer than its limit of %s (activeDeadlineSeconds: %d)", limit(job), *job.Spec.ActiveDeadlineSeconds)
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
