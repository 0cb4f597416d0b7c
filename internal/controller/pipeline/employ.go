package pipeline

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/foreman"
)

// employ sees to it that there is a job that computes.
func (c *Runs) employ(ctx context.Context, s *step, w *work, given *foreman.Work) (time.Duration, error) {
	job := &v1alpha1.TrainingJob{}
	name := jobName(s.run, s.stage.Name)
	s.status.Job = name
	key := types.NamespacedName{Namespace: s.run.Namespace, Name: name}
	err := c.client.Get(ctx, key, job)
	if apierrors.IsNotFound(err) && s.stage.Whole() {
		// One that was created a moment ago may not be seen yet: what its members have
		// begun would be forgotten for another one.
		err = c.live.Get(ctx, key, job)
	}
	if apierrors.IsNotFound(err) {
		job, err := c.job(s, w)
		if err == nil && s.stage.Whole() {
			given.For(tagOf(job))
			if err = given.Afresh(ctx); err == nil {
				err = given.Lend()
			}
		}
		if err != nil {
			return 0, s.fail(err)
		}
		err = c.client.Create(ctx, job)
		if apierrors.IsAlreadyExists(err) {
			return 0, c.adopt(ctx, s, given, key)
		}
		if err != nil {
			if apierrors.IsInvalid(err) {
				return 0, s.fail(&unfit{err.Error()})
			}
			return 0, fmt.Errorf("creating job %s: %w", name, err)
		}
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading job %s: %w", name, err)
	}
	if !metav1.IsControlledBy(job, s.run) {
		s.end(v1alpha1.RunFailed, "there is a job %s already, which is not this run's: delete it and start again", name)
		return 0, nil
	}
	if !current(job, w.resolved.terms) {
		return c.replace(ctx, job)
	}
	return c.follow(ctx, s, given, job)
}

// adopt has the members of a job be heard that somebody else has just created.
func (c *Runs) adopt(ctx context.Context, s *step, given *foreman.Work, key types.NamespacedName) error {
	if !s.stage.Whole() {
		return nil
	}
	job := &v1alpha1.TrainingJob{}
	if err := c.live.Get(ctx, key, job); err != nil {
		return fmt.Errorf("reading job %s, which is there already: %w", key.Name, err)
	}
	given.For(tagOf(job))
	return nil
}

// follow does what the state of the stage's job asks for.
func (c *Runs) follow(ctx context.Context, s *step, given *foreman.Work, job *v1alpha1.TrainingJob) (time.Duration, error) {
	if s.stage.Whole() {
		given.For(tagOf(job))
		s.noteJobGPUs(job)
		if says := given.Refused(); says != "" { // it would write the same again
			return c.conclude(ctx, s, given, job, says)
		}
	}
	switch job.Status.Phase {
	case v1alpha1.JobFailed:
		if s.stage.Whole() {
			return c.conclude(ctx, s, given, job, job.Status.Message)
		}
		s.end(v1alpha1.RunFailed, "its job %s failed: %s", job.Name, job.Status.Message)
	case v1alpha1.JobSucceeded:
		if job.Status.DrainedTime == nil && (s.stage.Spec.Spark != nil || c.deps.Machine.carries() && s.stage.Whole()) {
			s.status.Message += "; its members are ending" // until then they may write
			return 0, nil
		}
		if s.stage.Whole() {
			return c.conclude(ctx, s, given, job, "")
		}
		// Its members found nothing to do, and then something came back: of one
		// that died with it.
		if finished := job.Status.FinishTime; finished != nil && c.deps.Now().Sub(finished.Time) > leaving && given.Idle() {
			return preparing, client.IgnoreNotFound(c.client.Delete(ctx, job, client.Preconditions{UID: &job.UID}))
		}
		return leaving, nil
	default:
		if job.Status.Message != "" {
			s.status.Message += fmt.Sprintf("; job %s: %s", job.Name, job.Status.Message)
		}
	}
	return 0, nil
}

// stop deletes the job of a stage that has ended early. A job that has ended stays: muster describe
// and muster logs show its members.
func (c *Runs) stop(ctx context.Context, s *step) error {
	c.desk.leave(workName(s.run, s.stage.Name))
	if err := c.dismiss(ctx, s); err != nil {
		return err
	}
	return c.deps.Machine.Foreman.Close(workName(s.run, s.stage.Name))
}

// dismiss deletes the job of a stage, which still runs although it is known what became of
// all datums: what it holds would be held for nothing.
func (c *Runs) dismiss(ctx context.Context, s *step) error {
	job := &v1alpha1.TrainingJob{}
	name := jobName(s.run, s.stage.Name)
	err := c.client.Get(ctx, types.NamespacedName{Namespace: s.run.Namespace, Name: name}, job)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading job %s: %w", name, err)
	}
	if job.Status.Phase == v1alpha1.JobSucceeded || job.Status.Phase == v1alpha1.JobFailed || !metav1.IsControlledBy(job, s.run) {
		return nil
	}
	if err := client.IgnoreNotFound(c.client.Delete(ctx, job, client.Preconditions{UID: &job.UID})); err != nil {
		return fmt.Errorf("deleting job %s: %w", name, err)
	}
	return nil
}

func tries(n int) string {
	if n == 1 {
		return "1 try"
	}
	return fmt.Sprintf("%d tries", n)
}
