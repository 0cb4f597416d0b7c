// Package pause is the command `muster pause`: tells the scheduler to start
// nothing new.
package pause

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/person"
	"github.com/muster-dev/muster/internal/cli/queue/survey"
	"github.com/muster-dev/muster/internal/cli/standstill"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	var mark standstill.Standstill
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Start nothing new, in all queues or in one; what runs goes on",
		Long: `Keeps anything new from starting, everywhere or in one queue and the queues below
it. What runs goes on, and members that fail are started again in their place.
Jobs may still be submitted; they wait until muster unpause. muster status and
muster why say that scheduling is paused, since when, by whom and why.`,
		Example: `  muster pause --reason 'new switches on Friday'
  muster pause --queue vision`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usage("pause takes no arguments: for one queue give --queue %s; one job is stopped by `muster suspend %[1]s`", args[0])
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("queue") && mark.Queue == "" {
				return exit.Usage("--queue: its value is empty: leave the flag out to pause everything, or name a queue")
			}
			server, err := f.Client()
			if err != nil {
				return err
			}
			mark.Who, mark.Since = person.Author(cmd.Context(), f.Client), time.Now().Truncate(time.Second)
			return run(cmd.Context(), server, f.Streams, mark)
		},
	}
	cmd.Flags().StringVar(&mark.Queue, "queue", "", "only this queue and those below it (default: everything)")
	cmd.Flags().StringVar(&mark.Why, "reason", "", "why, in any words: it is shown to everybody who waits")
	_ = cmd.RegisterFlagCompletionFunc("queue", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return survey.Complete(cmd.Context(), f, nil), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

func run(ctx context.Context, server client.Client, streams terminal.Streams, mark standstill.Standstill) error {
	before, err := standstill.Set(ctx, server, mark)
	if err != nil {
		return err
	}
	if before != nil {
		_, err = fmt.Fprintf(streams.Out, "already: %s\n", before)
		return err
	}
	what := "scheduling paused"
	if mark.Queue != "" {
		what = "queue " + mark.Queue + " stopped"
	}
	_, err = fmt.Fprintf(streams.Out, "%s: what runs goes on, nothing new starts; `%s` ends it\n", what, mark.Remedy())
	return err
}
