// Package suspension owns setting and clearing spec.suspend of training jobs,
// and waiting until that has taken effect.
//
// It must not know any command.
package suspension

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/removal"
)

// pollEvery is how often the server is asked.
const pollEvery = 100 * time.Millisecond

// Set suspends a job, or lets it go on. It reports whether that changed
// anything. A job that has ended is an error.
func Set(ctx context.Context, c client.Client, namespace, name string, suspend bool) (job *v1alpha1.TrainingJob, changed bool, err error) {
	job, err = member.Job(ctx, c, namespace, name)
	if err != nil {
		return nil, false, err
	}
	if phase := job.Status.Phase; phase == v1alpha1.JobSucceeded || phase == v1alpha1.JobFailed {
		return nil, false, exit.With(exit.Failure, fmt.Errorf("%s has ended (%s): it can neither be suspended nor resumed", name, phase))
	}
	if job.Spec.Suspend == suspend {
		return job, false, nil
	}
	before := job.DeepCopy()
	job.Spec.Suspend = suspend
	if err := c.Patch(ctx, job, client.MergeFrom(before)); err != nil {
		return nil, false, fmt.Errorf("changing %s: %w", name, err)
	}
	return job, true, nil
}

// errDeleted ends the wait for a job that somebody deleted.
var errDeleted = errors.New("it was deleted meanwhile")

// WaitStopped returns once a suspended job holds nothing, telling seen what is
// left, again and again.
func WaitStopped(ctx context.Context, c client.Client, job *v1alpha1.TrainingJob, seen func(removal.Left)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		left, err := removal.Look(ctx, c, job)
		if err != nil {
			return err
		}
		if !left.Object {
			return fmt.Errorf("waiting for %s to stop: %w", job.Name, errDeleted)
		}
		seen(left)
		if left.Running == 0 {
			var now v1alpha1.TrainingJob
			if err := c.Get(ctx, client.ObjectKeyFromObject(job), &now); err != nil {
				return fmt.Errorf("waiting for %s to stop: %w", job.Name, err)
			}
			if now.Status.Phase == v1alpha1.JobSuspended || now.Status.Phase == v1alpha1.JobSucceeded || now.Status.Phase == v1alpha1.JobFailed {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
