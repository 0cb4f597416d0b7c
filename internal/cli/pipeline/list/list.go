// Package list is the command `muster pipeline list`.
package list

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

var formats = []output.Format{output.JSON, output.YAML}

// Listed is one pipeline, as -o json prints it.
type Listed struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Stages      int    `json:"stages"`
	Phase       string `json:"phase,omitempty"`
	LastRun     string `json:"lastRun,omitempty"`
	// LastEnded is the result of the last run that has ended.
	LastEnded *v1alpha1.EndedRun `json:"lastEnded,omitempty"`
	Message   string             `json:"message,omitempty"`
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "list",
		Aliases:           []string{"ls"},
		Short:             "List pipelines and what they do",
		Example:           `  muster pipeline list`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	format := output.Flag(cmd, formats...)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := format.Validate(formats...); err != nil {
			return err
		}
		return run(cmd.Context(), f, *format)
	}
	return cmd
}

func run(ctx context.Context, f *connection.Factory, format output.Format) error {
	server, namespace, err := f.Reach()
	if err != nil {
		return err
	}
	list := &v1alpha1.PipelineList{}
	if err := server.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing pipelines: %w", err)
	}
	found := []Listed{}
	for i := range list.Items {
		p := &list.Items[i]
		found = append(found, Listed{
			Name: p.Name, Description: p.Spec.Description, Stages: len(p.Spec.Stages), Phase: string(p.Status.Phase), LastRun: p.Status.LastRun, LastEnded: p.Status.LastEnded, Message: p.Status.Message,
		})
	}
	if format != output.Human {
		return output.Print(f.Streams.Out, format, found)
	}
	if len(found) == 0 {
		_, err := fmt.Fprintf(f.Streams.Err, "There are no pipelines in namespace %s: make one with `muster pipeline apply -f FILE`.\n", namespace)
		return err
	}
	style := f.Streams.OutStyle()
	table := terminal.NewTable("PIPELINE", "STAGES", "PHASE", "LAST RUN", "LAST RESULT", "ENDED", "REASON")
	for _, p := range found {
		result, ended := "-", "-"
		if last := p.LastEnded; last != nil {
			result = string(last.Phase)
			if last.FinishTime != nil {
				ended = terminal.WholeSpan(max(time.Since(last.FinishTime.Time), 0)) + " ago"
			}
		}
		table.Row(p.Name, fmt.Sprint(p.Stages), p.Phase, cmp.Or(p.LastRun, "-"), result, ended, p.Message)
	}
	return table.Write(f.Streams.Out, style, "")
}
