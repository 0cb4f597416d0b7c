package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/removal"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/cli/transcript"
)

// attend stays with the job until it ends and ends as it does. If ctx ends
// first, it stops the job and waits until its GPUs are free.
func (o *options) attend(ctx context.Context, server client.WithWatch, job *v1alpha1.TrainingJob) error {
	home, err := o.factory.DataFolder()
	if err != nil {
		return err
	}
	set, err := o.factory.Clientset()
	if err != nil {
		return err
	}
	archive, err := transcript.ArchiveAt(ctx, o.factory, home, job)
	if err != nil {
		return err
	}
	streams := o.factory.Streams
	announcer := newAnnouncer(streams.Err, streams.ErrStyle())
	defer announcer.quiet()
	announcer.begin(job)
	o.adviseGPUs(ctx, server, job)
	attendance := transcript.Attendance{
		Client: server, Source: transcript.Server{Set: set}, Archive: archive,
		Printer: transcript.NewPrinter(streams.Out, streams.OutStyle(), member.Of(job), false),
		Job:     job, Tail: -1, Changed: announcer.changed, Lost: announcer.lost,
	}
	outcome, err := attendance.Follow(ctx)
	announcer.quiet()
	switch {
	case ctx.Err() != nil:
		return o.stop(context.WithoutCancel(ctx), server, job)
	case err != nil:
		return fmt.Errorf("%w (the job goes on by itself: `muster logs -f %s` shows it)", o.factory.Explain(err), job.Name)
	case outcome.Deleted && !finished(outcome.Job):
		return exit.With(exit.Failure, fmt.Errorf("%s was deleted before it had ended", job.Name))
	}
	summarize(streams.Err, streams.ErrStyle(), outcome.Job)
	if code := outcome.Code(); code != exit.OK {
		return exit.With(code, nil)
	}
	return nil
}

func finished(job *v1alpha1.TrainingJob) bool {
	return job.Status.Phase == v1alpha1.JobSucceeded || job.Status.Phase == v1alpha1.JobFailed
}

// stopPatience is how long ^C waits for the job to be gone.
const stopPatience = 2 * time.Minute

// stop deletes the job after ^C and waits until nothing of it is left. The
// process's second ^C is no longer caught by anybody and ends it at once.
func (o *options) stop(ctx context.Context, server client.Client, job *v1alpha1.TrainingJob) error {
	ctx, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	streams := o.factory.Streams
	until := "it is gone"
	if wantsGPUs(job) {
		until = "its GPUs are free"
	}
	_, _ = fmt.Fprintf(streams.Err, "\nStopping %s and waiting until %s (^C again leaves at once; it stops all the same).\n", job.Name, until)
	if err := removal.Delete(ctx, server, job); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return exit.With(exit.Interrupted, o.factory.Explain(err))
	}
	progress := terminal.NewProgress(streams.Err, "Stopping "+job.Name, terminal.Things)
	defer progress.Stop()
	gpus := 0
	err := removal.Wait(ctx, server, job, func(left removal.Left) {
		gpus = max(gpus, left.GPUs)
		progress.Say(left.String())
	})
	progress.Stop()
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%s is still stopping after %s: `muster get pods` shows what is left", job.Name, terminal.Span(stopPatience))
		}
		return exit.With(exit.Interrupted, o.factory.Explain(err))
	}
	freed := "nothing of it is left"
	if gpus > 0 {
		freed = terminal.Count(int64(gpus), "GPU") + " free again"
	}
	_, _ = fmt.Fprintf(streams.Err, "Stopped %s: %s.\n", job.Name, freed)
	return exit.With(exit.Interrupted, nil)
}
