package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/inputlink"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/foreman/worker"
	"github.com/muster-dev/muster/internal/pipeline/harvest"
)

// job is the job that computes the stage.
func (c *Runs) job(s *step, w *work) (*v1alpha1.TrainingJob, error) {
	job, err := c.plainJob(s, w)
	if err != nil {
		return nil, err
	}
	w.resolved.pin(job)
	return job, noteVersions(job, w.resolved.terms)
}

// plainJob is the same, which does not say yet by what values it computes.
func (c *Runs) plainJob(s *step, w *work) (*v1alpha1.TrainingJob, error) {
	m, name := c.deps.Machine, workName(s.run, s.stage.Name)
	folder := m.Foreman.Folder(name)
	if !s.stage.Whole() {
		job := workersJob(s.run, s.stage, w.resolved.code, m.Program, folder, len(w.tasks))
		if w.resolved.apart || m.Shared {
			m.apart(job, name, jobTag(w.resolved.terms), gpusOf(s.stage))
		}
		return job, nil
	}
	if len(w.spec.Datums) != 1 {
		return nil, &unfit{"a stage of training or Spark has one datum, which is everything: take its globs and combinations out"}
	}
	datum := filepath.Join(folder, w.spec.Datums[0].ID)
	switch {
	case s.stage.Spec.Spark != nil && m.carries():
		return m.sparkElsewhere(s.run, s.stage, w.resolved), nil
	case s.stage.Spec.Spark != nil && w.resolved.apart:
		return m.sparkInImages(s.run, s.stage, w.resolved, datum)
	case s.stage.Spec.Spark != nil:
		job := sparkJob(s.run, s.stage, w.resolved, m.Program, datum)
		return job, appear(job, s.stage, datum, datum)
	}
	return m.trainingJob(s.run, s.stage, w.resolved.code, datum, w.resolved.apart)
}

// conclude tells the foreman what became of the one datum of a stage whose job is
// no worker's.
func (c *Runs) conclude(ctx context.Context, s *step, given *foreman.Work, job *v1alpha1.TrainingJob, problem string) (time.Duration, error) {
	d, ok := given.Only()
	if !ok {
		return 0, errors.New("the stage has not one datum")
	}
	o := shift.Outcome{ID: d.ID, Worker: "job " + job.Name}
	if job.Status.StartTime != nil && job.Status.FinishTime != nil {
		o.Started, o.Took = job.Status.StartTime.Time, job.Status.FinishTime.Sub(job.Status.StartTime.Time)
	}
	if problem == "" && c.deps.Machine.carries() {
		if err := given.Unite(ctx, owing(job)); err != nil {
			if !final(err) {
				return 0, err
			}
			o.Exit, o.Error = -1, "job "+job.Name+" succeeded, and its output cannot be kept: "+err.Error()
		}
	}
	ending, err := c.transcribe(ctx, s, given, d.Folder, job)
	if err != nil {
		return 0, err
	}
	switch {
	case o.Error != "":
	case problem != "":
		o.Exit = 1
		o.Error = "job " + job.Name + " failed: " + problem + ending
		switch {
		case s.stage.Spec.Spark == nil:
		case c.deps.Machine.carries():
			var err error
			if o.Error, err = fell(ctx, given, job, o.Error); err != nil {
				return 0, err
			}
		default:
			o.Error = sparkProblem(d.Folder, o.Error)
		}
	default:
		if err := whole(d.Folder, mountOf(s.stage)); err != nil {
			o.Exit, o.Error = -1, err.Error()
		}
	}
	given.Conclude(o)
	s.status.Message = "its output is being recorded"
	return 0, nil
}

// whole keeps the output of members that shared a folder. They knew the folder by its own path, or
// by its mount in images.
func whole(folder, mount string) error {
	for _, places := range []inputlink.Places{{Folder: folder, Mount: mount}, {Folder: datumDir}} {
		if err := inputlink.Settle(folder, places); err != nil {
			return err
		}
	}
	return worker.CheckOutput(filepath.Join(folder, shift.OutFolder))
}

// transcriptTimeout bounds the time for reading the logs of members.
const transcriptTimeout = time.Minute

// transcribe makes the output of a training stage's members the log of its datum, and returns the
// last lines for the reason of a failure. Of a Spark stage the driver keeps the log.
func (c *Runs) transcribe(ctx context.Context, s *step, given *foreman.Work, folder string, job *v1alpha1.TrainingJob) (string, error) {
	m := c.deps.Machine
	switch {
	case s.stage.Spec.Spark != nil:
		return "", nil
	case m.carries():
		why, err := given.Said(ctx)
		if err != nil {
			return "", fmt.Errorf("keeping the logs of job %s: %w", job.Name, err)
		}
		if why != "" {
			why = "; " + why
		}
		return why, nil
	case m.Transcript == nil:
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, transcriptTimeout)
	defer cancel()
	failed, _, _ := strings.Cut(job.Status.Message, " ")
	ending, err := harvest.Log(folder, failed, func(to io.Writer) error { return m.Transcript(ctx, job, to) })
	if err != nil {
		return "", fmt.Errorf("keeping the logs of job %s: %w", job.Name, err)
	}
	if ending != "" {
		ending = "; its log ends with: " + ending
	}
	return ending, nil
}
