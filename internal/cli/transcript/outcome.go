package transcript

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/member"
)

// Learn takes in the exit code of a member whose pod has ended.
func (o Outcome) Learn(pod *corev1.Pod) {
	m, ok := member.OfPod(pod)
	if !ok {
		return
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == member.Container(pod) && status.State.Terminated != nil {
			o.ExitCodes[m] = status.State.Terminated.ExitCode
		}
	}
}

// Code returns the exit status of a command that was attached to the job: the
// script's own where the job has a single member.
func (o Outcome) Code() exit.Code {
	switch {
	case o.Job.Status.Phase == v1alpha1.JobSucceeded:
		return exit.OK
	case o.Job.Status.Phase != v1alpha1.JobFailed:
		// Deleted before it had ended.
		return exit.Failure
	}
	if TimedOut(o.Job) {
		return exit.Deadline
	}
	if members := member.Of(o.Job); len(members) == 1 {
		if code := o.ExitCodes[members[0]]; code > 0 && code < 256 {
			return exit.Code(code)
		}
	}
	return exit.Failure
}

// TimedOut reports whether a job failed because of its time limit: it failed
// when it had run for that long, to the second by which times are told.
func TimedOut(job *v1alpha1.TrainingJob) bool {
	status, limit := job.Status, job.Spec.ActiveDeadlineSeconds
	if status.Phase != v1alpha1.JobFailed || limit == nil {
		return false
	}
	if finished := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionFinished); finished != nil && strings.Contains(finished.Reason, "Deadline") {
		return true
	}
	return status.StartTime != nil && status.FinishTime != nil &&
		status.FinishTime.Sub(status.StartTime.Time) >= time.Duration(*limit)*time.Second
}
