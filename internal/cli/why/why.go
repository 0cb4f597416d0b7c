// Package why is the command `muster why`: the exact reason why a training job
// is where it is.
package why

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/member"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/scheduling"
	"github.com/muster-dev/muster/internal/snapshot"
)

// explain computes a gang's reason from the state of the cluster now.
type explain func(ctx context.Context, reader client.Reader, namespace, name string) (scheduling.Reason, error)

// Answer is what `muster why -o json` prints.
type Answer struct {
	// Job is the training job's name.
	Job string `json:"job"`
	// Phase is where in its life it is.
	Phase v1alpha1.JobPhase `json:"phase"`
	// Code names the kind of reason, for programs; empty where the reason is
	// not the scheduler's.
	Code string `json:"code,omitempty"`
	// Reason is the reason in a sentence.
	Reason string `json:"reason"`
	// Details are the reason's figures.
	Details any `json:"details,omitempty"`
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	var format *output.Format
	cmd := &cobra.Command{
		Use:   "why JOB",
		Short: "Say why a training job waits, or is where it is",
		Long: `Says what a training job waits for: what it needs at once, what is free, and who
holds the rest since when. The answer is computed now, from what is free now.`,
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
			return run(cmd.Context(), f, *format, args[0])
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
	answer, err := ask(ctx, reader, snapshot.Explain, namespace, name)
	if err != nil {
		return err
	}
	if format != output.Human {
		return output.Print(f.Streams.Out, format, answer)
	}
	style := f.Streams.OutStyle()
	_, err = fmt.Fprintf(f.Streams.Out, "%s %s: %s\n", style.Paint(terminal.Bold, answer.Job), style.Phase(string(answer.Phase), string(answer.Phase)), answer.Reason)
	return err
}

// ask answers for one job. Only while a job is to be placed does the scheduler
// know the reason; otherwise the job itself does.
func ask(ctx context.Context, reader client.Reader, explain explain, namespace, name string) (Answer, error) {
	job, err := member.Job(ctx, reader, namespace, name)
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{Job: name, Phase: job.Status.Phase, Reason: job.Status.Message}
	switch job.Status.Phase {
	case v1alpha1.JobPreparing, v1alpha1.JobSucceeded, v1alpha1.JobFailed:
	default:
		reason, err := explain(ctx, reader, namespace, name)
		if err != nil && !apierrors.IsNotFound(err) {
			return Answer{}, fmt.Errorf("explaining %s: %w", name, err)
		}
		if err == nil {
			answer.Code, answer.Reason, answer.Details = string(reason.Code()), reason.Render(snapshot.Clock(time.Now(), time.Local)), reason
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
