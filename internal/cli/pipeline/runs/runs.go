// Package runs is the command `muster pipeline runs`.
package runs

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/pipeline/lookup"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

var formats = []output.Format{output.JSON, output.YAML}

// Listed is one run, as -o json prints it.
type Listed struct {
	Name     string `json:"name"`
	Pipeline string `json:"pipeline"`
	Identity string `json:"identity"`
	Cause    string `json:"cause,omitempty"`
	Phase    string `json:"phase,omitempty"`
	Message  string `json:"message,omitempty"`
	// Computed, Reused, Failed and Waiting count datums of all stages.
	Computed int64      `json:"computed"`
	Reused   int64      `json:"reused"`
	Failed   int64      `json:"failed"`
	Waiting  int64      `json:"waiting"`
	Started  *time.Time `json:"started,omitempty"`
	// Seconds is how long it took, or has taken so far.
	Seconds float64                `json:"seconds"`
	Inputs  []v1alpha1.RunInput    `json:"inputs,omitempty"`
	Stages  []v1alpha1.StageStatus `json:"stages,omitempty"`
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs [PIPELINE]",
		Short: "List runs, with what they computed and what they took from before",
		Example: `  muster pipeline runs
  muster pipeline runs digits -o json`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: lookup.Complete(f, false),
	}
	format := output.Flag(cmd, formats...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := format.Validate(formats...); err != nil {
			return err
		}
		if len(args) > 1 {
			return exit.Usage("one pipeline at a time: what is %q?", args[1])
		}
		pipeline := ""
		if len(args) == 1 {
			pipeline = args[0]
		}
		return run(cmd.Context(), f, *format, pipeline)
	}
	return cmd
}

func run(ctx context.Context, f *connection.Factory, format output.Format, pipeline string) error {
	server, namespace, err := f.Reach()
	if err != nil {
		return err
	}
	if pipeline != "" {
		if _, err := lookup.Pipeline(ctx, server, namespace, pipeline); err != nil {
			return err
		}
	}
	all, err := lookup.Runs(ctx, server, namespace, pipeline)
	if err != nil {
		return err
	}
	now := time.Now()
	found := []Listed{}
	for i := range all {
		found = append(found, listed(&all[i], now))
	}
	if format != output.Human {
		return output.Print(f.Streams.Out, format, found)
	}
	if len(found) == 0 {
		_, err := fmt.Fprintln(f.Streams.Err, "There are no runs yet: a commit on a branch that a pipeline reads starts one.")
		return err
	}
	return human(f.Streams, all, found)
}

// human prints runs as a table.
func human(streams terminal.Streams, all []v1alpha1.PipelineRun, found []Listed) error {
	table := terminal.NewTable("RUN", "PHASE", "STAGES", "COMPUTED", "REUSED", "FAILED", "TOOK", "CAUSE", "REASON")
	for i := range found {
		r := &found[i]
		took := terminal.WholeSpan(time.Duration(r.Seconds * float64(time.Second)))
		table.Row(r.Name, r.Phase, all[i].Status.Done, fmt.Sprint(r.Computed), fmt.Sprint(r.Reused), fmt.Sprint(r.Failed), took, r.Cause, r.Message)
	}
	return table.Write(streams.Out, streams.OutStyle(), "")
}

func listed(r *v1alpha1.PipelineRun, now time.Time) Listed {
	out := Listed{
		Name: r.Name, Pipeline: r.Spec.Pipeline, Identity: r.Spec.Identity, Cause: r.Spec.Cause, Phase: string(r.Status.Phase),
		Message: r.Status.Message, Inputs: r.Spec.Inputs, Stages: r.Status.Stages,
	}
	for i := range r.Status.Stages {
		d := r.Status.Stages[i].Datums
		out.Computed, out.Reused, out.Failed, out.Waiting = out.Computed+d.Computed, out.Reused+d.Reused, out.Failed+d.Failed, out.Waiting+d.Waiting
	}
	if began := r.Status.StartTime; began != nil {
		out.Started = &began.Time
		end := now
		if r.Status.FinishTime != nil {
			end = r.Status.FinishTime.Time
		}
		out.Seconds = max(0, end.Sub(began.Time).Seconds())
	}
	return out
}
