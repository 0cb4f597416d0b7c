package delete

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/presence"
	"github.com/muster-dev/muster/internal/cli/removal"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

var (
	// errTimeout is the cause of the end of a wait whose --timeout is over.
	errTimeout = errors.New("the time of --timeout is over")
	// errIdle is that of a wait for a manager that does not run.
	errIdle = errors.New("no manager of Muster runs")
)

// wait returns once nothing of any job is left, and the other objects are gone; or with
// an error once the time of --timeout is over, or, without one, no manager runs that could
// end jobs.
func (o *options) wait(ctx context.Context, server client.Client, jobs []*v1alpha1.TrainingJob, others []other) error {
	progress := terminal.NewProgress(o.factory.Streams.Err, title(jobs, others), terminal.Things)
	defer progress.Stop()
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	switch {
	case o.timeout > 0:
		late := time.AfterFunc(o.timeout, func() { cancel(errTimeout) })
		defer late.Stop()
	case len(jobs) > 0:
		done := make(chan struct{})
		defer func() { cancel(nil); <-done }()
		go func() {
			defer close(done)
			o.attend(waiting, cancel)
		}()
	}
	began := time.Now()
	err := o.gone(waiting, server, progress, jobs, others)
	progress.Stop()
	cause := context.Cause(waiting)
	switch {
	case err != nil && (errors.Is(cause, errTimeout) || errors.Is(cause, errIdle)):
		return o.unfinished(ctx, server, time.Since(began), jobs, others)
	case errors.Is(err, context.Canceled):
		_, _ = fmt.Fprintln(o.factory.Streams.Err, "Not waiting any longer; what was asked to end ends all the same.")
	}
	return err
}

// idleEvery is the pause between two looks for a manager. The first comes after it: a
// manager that was just replaced has a successor by then.
const idleEvery = 30 * time.Second

// attend ends the wait once no manager runs.
func (o *options) attend(ctx context.Context, end context.CancelCauseFunc) {
	every := idleEvery
	if o.every > 0 {
		every = o.every
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if presence.Look(ctx, o.factory).Idle {
			end(errIdle)
			return
		}
	}
}

// unfinished describes the remains of the first object that still exists, and the next step.
func (o *options) unfinished(ctx context.Context, server client.Client, after time.Duration, jobs []*v1alpha1.TrainingJob, others []other) error {
	idle := len(jobs) > 0 && presence.Look(ctx, o.factory).Idle
	for _, job := range jobs {
		held, err := removal.Held(ctx, server, job, idle)
		if err != nil {
			return err
		}
		if held != "" {
			return exit.With(exit.Failure, fmt.Errorf("%s is not gone after %s: %s", job.Name, terminal.Span(after), held))
		}
	}
	for _, one := range others {
		held, err := one.held(ctx)
		if err != nil {
			return err
		}
		if held != "" {
			return exit.With(exit.Failure, fmt.Errorf("%s is not gone after %s: %s", one.reference(), terminal.Span(after), held))
		}
	}
	return nil // it was gone in the last moment
}

func (o *options) gone(ctx context.Context, server client.Client, progress *terminal.Progress, jobs []*v1alpha1.TrainingJob, others []other) error {
	for namespace, of := range byNamespace(jobs) {
		err := removal.WaitAll(ctx, server, of, func(gone int, first string, left removal.Left) {
			if len(jobs) > 1 {
				progress.Set(int64(gone), int64(len(of)))
			}
			if first != "" {
				progress.Say(first + ": " + left.String())
			}
		})
		if err != nil {
			return fmt.Errorf("waiting for the jobs of namespace %s: %w", namespace, err)
		}
	}
	for _, one := range others {
		progress.Say(one.reference())
		if err := one.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}
