package pipeline

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/foreman"
)

// coarse is in what steps the seconds of a stage that is on its way grow: each step
// is a write.
const coarse = 10 * time.Second

// noteGPUs notes for how long a stage whose datums workers compute has held GPUs.
func (s *step) noteGPUs(stands *foreman.Status) {
	held, idle := stands.GPUSeconds, stands.GPUIdleSeconds
	if !stands.Over {
		held, idle = steps(held), steps(idle)
	}
	s.status.GPUSeconds, s.status.GPUIdleSeconds = seconds(held), seconds(idle)
}

// noteJobGPUs notes for how long a job of its own kind has held GPUs, and for how long
// not all of its members ran meanwhile.
func (s *step) noteJobGPUs(job *v1alpha1.TrainingJob) {
	start, end := number(job.Status.GPUStartSeconds), number(job.Status.GPUEndSeconds)
	before := start - number(job.Status.GPUStartedSeconds) // what no node has counted
	held, idle := before+gpuSeconds(job, s.now.Time), start+end
	if job.Status.FinishTime == nil {
		held = steps(held)
	}
	s.status.GPUSeconds, s.status.GPUIdleSeconds = seconds(held), seconds(min(idle, held))
}

// number is a quantity that may not be there as a number.
func number(q *resource.Quantity) float64 {
	if q == nil {
		return 0
	}
	return q.AsApproximateFloat64()
}

func steps(seconds float64) float64 {
	return math.Floor(seconds/coarse.Seconds()) * coarse.Seconds()
}

// gpuSeconds is GPUs held x seconds held by a job's members: those that have ended
// as their nodes counted them, and those that have not as if each had run since the
// first one started, until the job finished. That is too much by what they started
// later, and too little by what they take to end.
func gpuSeconds(job *v1alpha1.TrainingJob, now time.Time) float64 {
	status := &job.Status
	held := status.GPUSeconds.AsApproximateFloat64()
	if status.StartTime == nil || status.DrainedTime != nil {
		return held
	}
	until := now
	if status.FinishTime != nil {
		until = status.FinishTime.Time
	}
	ran := max(0, until.Sub(status.StartTime.Time).Seconds())
	for i := range job.Spec.Roles {
		role := &job.Spec.Roles[i]
		for k := range status.Roles {
			if status.Roles[k].Name == role.Name && role.GPUs != nil {
				held += float64(status.Roles[k].Running) * role.GPUs.AsApproximateFloat64() * ran
			}
		}
	}
	return held
}

// seconds is a number of seconds as a quantity; nil where there are none.
func seconds(n float64) *resource.Quantity {
	if n <= 0 {
		return nil
	}
	return resource.NewMilliQuantity(int64(n*1000), resource.DecimalSI)
}
