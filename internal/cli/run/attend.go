package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
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
	home, err := o.factory.Home()
	if err != nil {
		return err
	}
	set, err := o.factory.Clientset()
	if err != nil {
		return err
	}
	streams := o.factory.Streams
	announcer := &announcer{out: streams.Err, style: streams.ErrStyle(), terminal: terminal.Is(streams.Err)}
	defer announcer.quiet()
	announcer.begin(job)
	attendance := transcript.Attendance{
		Client: server, Source: transcript.Server{Set: set}, Archive: transcript.ArchiveOf(home, job),
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
	_, _ = fmt.Fprintf(streams.Err, "\nStopping %s and waiting until its GPUs are free (^C again leaves at once; it stops all the same).\n", job.Name)
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

// announcer tells on standard error which phase a job is in, and why.
type announcer struct {
	mu       sync.Mutex
	out      io.Writer
	style    terminal.Style
	terminal bool
	phase    v1alpha1.JobPhase
	message  string
	restarts int32
	progress *terminal.Progress
	started  time.Time
}

func (a *announcer) begin(job *v1alpha1.TrainingJob) {
	a.started = time.Now()
	a.say(terminal.Bold, job.Name, "accepted")
}

func (a *announcer) say(colour terminal.Colour, word, rest string) {
	if rest != "" {
		word, rest = word+":", " "+rest
	}
	_, _ = fmt.Fprintln(a.out, a.style.Paint(colour, word)+rest)
}

// changed tells of a new phase, or a new reason to be in it.
func (a *announcer) changed(job *v1alpha1.TrainingJob) {
	a.mu.Lock()
	defer a.mu.Unlock()
	status := job.Status
	if status.Restarts > a.restarts {
		a.restarts = status.Restarts
		a.hide()
		a.say(terminal.Yellow, "Restarted", fmt.Sprintf("%s so far; %s", terminal.Count(int64(status.Restarts), "failure"), status.Message))
	}
	if status.Phase == "" || status.Phase == a.phase && status.Message == a.message {
		return
	}
	same := status.Phase == a.phase
	a.phase, a.message = status.Phase, status.Message
	switch status.Phase {
	case v1alpha1.JobPreparing, v1alpha1.JobWaiting, v1alpha1.JobStarting:
		// On a terminal one line is kept up to date; elsewhere it is written
		// when it changes, at most every few seconds while preparing.
		if a.terminal || status.Phase == v1alpha1.JobPreparing {
			a.show(same)
			return
		}
		a.say(terminal.Yellow, string(status.Phase), status.Message)
	case v1alpha1.JobRunning:
		a.hide()
		if !same {
			a.say(terminal.Green, "Running", describeStart(job))
		}
	case v1alpha1.JobSuspended:
		a.hide()
		a.say(terminal.Yellow, "Suspended", status.Message)
	default:
		a.hide()
	}
}

func describeStart(job *v1alpha1.TrainingJob) string {
	members := int64(len(member.Of(job)))
	if job.Status.GPUs > 0 {
		return terminal.Count(members, "member") + " on " + terminal.Count(job.Status.GPUs, "GPU")
	}
	return terminal.Count(members, "member")
}

// show keeps a line of progress with the phase and its reason.
func (a *announcer) show(same bool) {
	if !same {
		a.hide()
	}
	if a.progress == nil {
		a.progress = terminal.NewProgress(a.out, string(a.phase), terminal.Things)
	}
	a.progress.Say(a.message)
}

func (a *announcer) hide() {
	if a.progress != nil {
		a.progress.Stop()
		a.progress = nil
	}
}

// lost tells that the server is away.
func (a *announcer) lost(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hide()
	a.say(terminal.Yellow, "Lost contact", fmt.Sprintf("trying again; the job goes on meanwhile (%v)", err))
}

// quiet takes any progress off the screen. It may be called more than once.
func (a *announcer) quiet() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hide()
}
