package trainingjob

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/news"
)

// runsWithin is for the [news] that the job runs. How far it is, its gang says
// already, and to whoever begins anew again.
const runsWithin = 5 * time.Second

// unsaid is news of a job that waits until it is due.
type unsaid struct {
	uid types.UID
	due time.Time
}

// early returns for how long a status need not be written yet; 0: it is written
// now.
func (c *Controller) early(job *v1alpha1.TrainingJob, after *v1alpha1.TrainingJobStatus) time.Duration {
	key, now := types.NamespacedName{Namespace: job.Namespace, Name: job.Name}, c.deps.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	wait := time.Duration(0)
	if isNews(&job.Status, after) {
		within := news.Within
		if after.Phase == v1alpha1.JobRunning {
			within = runsWithin
		}
		wait = c.turn(key, job.UID, now, within)
	}
	if wait <= 0 {
		delete(c.unsaid, key)
		return 0
	}
	c.unsaid[key] = unsaid{job.UID, now.Add(wait)}
	return wait
}

// turn is in how long it is a job's turn.
func (c *Controller) turn(key types.NamespacedName, uid types.UID, now time.Time, within time.Duration) time.Duration {
	if u, waits := c.unsaid[key]; waits && u.uid == uid {
		return min(within, u.due.Sub(now))
	}
	return news.Turn(c.news, now, within)
}

// said forgets news that is none any more.
func (c *Controller) said(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unsaid, key)
}

// isNews reports whether statuses differ only in how far the job is. What is
// known nowhere else, code and environment among it, is none; nor is the end
// once nothing is left to come.
func isNews(before, after *v1alpha1.TrainingJobStatus) bool {
	if !underWay(before.Phase) || !underWay(after.Phase) && (after.Phase != v1alpha1.JobSucceeded || after.DrainedTime != nil) {
		return false
	}
	now := *after
	now.Phase, now.Reason, now.Message, now.Roles, now.Ready, now.GPUs = before.Phase, before.Reason, before.Message, before.Roles, before.Ready, before.GPUs
	now.ObservedGeneration, now.Conditions = before.ObservedGeneration, before.Conditions
	now.StartTime, now.FinishTime, now.LastWorkerTime = before.StartTime, before.FinishTime, before.LastWorkerTime
	now.DataSeconds, now.DataGPUSeconds = before.DataSeconds, before.DataGPUSeconds
	now.GPUStartSeconds, now.GPUStartedSeconds, now.GPUEndSeconds = before.GPUStartSeconds, before.GPUStartedSeconds, before.GPUEndSeconds
	now.GPUSeconds, now.CPUSeconds = before.GPUSeconds, before.CPUSeconds
	return equality.Semantic.DeepEqual(*before, now)
}

// underWay reports whether a job in a phase is on its way.
func underWay(p v1alpha1.JobPhase) bool {
	switch p {
	case "", v1alpha1.JobPreparing, v1alpha1.JobWaiting, v1alpha1.JobStarting, v1alpha1.JobRunning:
		return true
	}
	return false
}
