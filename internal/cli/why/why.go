// Package why is the command `muster why`: the exact reason why a training job
// is where it is.
package why

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/explanation"
	"github.com/muster-dev/muster/internal/cli/kind"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/standstill"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot"
)

// explain accounts for a gang from the state of the cluster now.
type explain func(ctx context.Context, reader client.Reader, namespace, name string) (scheduling.Explanation, error)

// Answer is what `muster why -o json` prints.
type Answer struct {
	// Job is the training job's name.
	Job string `json:"job"`
	// Phase is where in its life it is.
	Phase v1alpha1.JobPhase `json:"phase"`
	// Code names the kind of reason, for programs: a code of the scheduler's, or the
	// reason in the job's status. Empty where the phase says it all.
	Code string `json:"code,omitempty"`
	// Reason is the reason in a sentence.
	Reason string `json:"reason"`
	// Details are the reason's figures.
	Details any `json:"details,omitempty"`
	// Document is its turn, when it is expected to start, and what would start
	// it sooner.
	explanation.Document
	// Paused are the pauses that keep the job from starting, whatever else
	// does.
	Paused []standstill.Standstill `json:"paused,omitempty"`
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	var format *output.Format
	cmd := &cobra.Command{
		SuggestFor: []string{"explain"},
		Use:        "why JOB",
		Short:      "Say why a training job waits, or is where it is",
		Long: `Says what a training job waits for: what it needs at once, what is free, and who
holds the rest since when; its place in the order of turns, when it is expected
to start, and the smallest changes that would start it now. Of a job that runs
it says since when, and whether it may have to make room for others. Why a job
has no place is computed now, from what is free now. Of a job that has its place
it gives the reason of the status: an image that cannot be pulled, a node that
does not answer, the end of the last attempt.`,
		Example: "  muster why mnist",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usage("why is what? Give one training job's name: muster why JOB")
			}
			return nil
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return f.CompleteJobs(cmd.Context(), args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := format.Validate(output.JSON, output.YAML); err != nil {
				return err
			}
			return run(cmd.Context(), f, *format, kind.Job(args[0]))
		},
	}
	format = output.Flag(cmd, output.JSON, output.YAML)
	return cmd
}

func run(ctx context.Context, f *connection.Factory, format output.Format, name string) error {
	reader, namespace, err := f.Reach()
	if err != nil {
		return err
	}
	answer, err := ask(ctx, reader, explanation.Of, namespace, name)
	if apierrors.IsForbidden(err) {
		// Not everybody may look at nodes and at the jobs of others: the manager
		// may, and says of them what the reason needs.
		answer, err = atDoor(ctx, f, namespace, name)
	}
	if err != nil {
		return err
	}
	if format != output.Human {
		return output.Print(f.Streams.Out, format, answer)
	}
	return answer.write(f.Streams.Out, f.Streams.OutStyle())
}

// atDoor has the manager answer.
func atDoor(ctx context.Context, f *connection.Factory, namespace, name string) (Answer, error) {
	manager, err := f.Visitor()
	if err != nil {
		return Answer{}, err
	}
	var answer Answer
	err = manager.Ask(ctx, namespace, "/why/"+name, nil, &answer)
	return answer, err
}

// Seen answers for a job as somebody may see it who may see its namespace alone.
func Seen(ctx context.Context, reader client.Reader, namespace, name string) (Answer, error) {
	return ask(ctx, reader, explanation.Seen, namespace, name)
}

// write puts the answer into lines.
func (a Answer) write(out io.Writer, style terminal.Style) error {
	if _, err := fmt.Fprintf(out, "%s %s: %s\n", style.Paint(terminal.Bold, a.Job), style.Phase(string(a.Phase), string(a.Phase)), a.Reason); err != nil {
		return err
	}
	if err := a.Write(out); err != nil {
		return err
	}
	for _, pause := range a.Paused {
		if _, err := fmt.Fprintf(out, "Nothing new starts: %s (`%s` ends it)\n", pause, pause.Remedy()); err != nil {
			return err
		}
	}
	return nil
}

// ask answers for one job. Only while a job is to be placed does the scheduler
// know the reason; otherwise the job itself does.
func ask(ctx context.Context, reader client.Reader, explain explain, namespace, name string) (Answer, error) {
	job, err := member.Job(ctx, reader, namespace, name)
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{Job: name, Phase: job.Status.Phase, Code: job.Status.Reason, Reason: job.Status.Message}
	switch job.Status.Phase {
	case v1alpha1.JobPreparing, v1alpha1.JobSucceeded, v1alpha1.JobFailed:
	default:
		x, err := explain(ctx, reader, namespace, name)
		if err != nil && !apierrors.IsNotFound(err) {
			return Answer{}, fmt.Errorf("explaining %s: %w", name, err)
		}
		if err == nil {
			clock := snapshot.Clock(time.Now(), time.Local)
			answer.Document = explanation.New(x, clock)
			if !stated(job, x.Reason) {
				answer.Code, answer.Reason, answer.Details = string(x.Reason.Code()), x.Reason.Render(clock), explanation.Details(x.Reason)
			}
		}
	}
	switch job.Status.Phase {
	case "", v1alpha1.JobPreparing, v1alpha1.JobWaiting:
		if answer.Paused, err = standstill.Of(ctx, reader, job.Spec.Queue); err != nil {
			return Answer{}, err
		}
	}
	if answer.Phase == "" {
		answer.Phase = "Accepted"
	}
	if answer.Reason == "" {
		answer.Reason = fallback(job)
	}
	return answer, nil
}

// stated reports whether the job's status, and not the scheduler, knows why the job is
// where it is. The scheduler knows why a job has no place. Whatever keeps one that has
// its place from starting, going on or ending, the controllers see and write down.
func stated(job *v1alpha1.TrainingJob, found scheduling.Reason) bool {
	if job.Status.Reason == "" || job.Status.Message == "" {
		return false
	}
	switch found.(type) {
	case scheduling.Placed, scheduling.Draining, scheduling.Finished:
		return true
	}
	return false
}

// fallback is what a condition says, or what the phase means.
func fallback(job *v1alpha1.TrainingJob) string {
	for _, kind := range []string{v1alpha1.ConditionFinished, v1alpha1.ConditionScheduled, v1alpha1.ConditionPrepared} {
		if condition := meta.FindStatusCondition(job.Status.Conditions, kind); condition != nil && condition.Message != "" {
			return condition.Message
		}
	}
	if job.Status.Phase == "" {
		return "nobody has looked at it yet; is Muster's controller running? See `muster status`"
	}
	return "nothing holds it up"
}
