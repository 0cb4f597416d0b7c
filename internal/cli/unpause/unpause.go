// Package unpause is the command `muster unpause`: lets the scheduler start
// work again.
package unpause

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/queue/survey"
	"github.com/muster-dev/muster/internal/cli/standstill"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	queue := ""
	cmd := &cobra.Command{
		Use:     "unpause",
		Short:   "Start new work again after a pause",
		Long:    "Lets new work start again, everywhere or in one queue, after muster pause.",
		Example: "  muster unpause\n  muster unpause --queue vision",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usage("unpause takes no arguments: for one queue give --queue %s; one job goes on by `muster resume %[1]s`", args[0])
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("queue") && queue == "" {
				return exit.Usage("--queue: its value is empty: leave the flag out to end the pause of everything, or name a queue")
			}
			server, err := f.Client()
			if err != nil {
				return err
			}
			return run(cmd.Context(), server, f.Streams, queue)
		},
	}
	cmd.Flags().StringVar(&queue, "queue", "", "only this queue (default: the pause of everything)")
	_ = cmd.RegisterFlagCompletionFunc("queue", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return survey.Complete(cmd.Context(), f, nil), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// run ends a pause, and names what else still keeps the queue, or the default
// one, from starting anything.
func run(ctx context.Context, server client.Client, streams terminal.Streams, queue string) error {
	before, err := standstill.Clear(ctx, server, queue)
	if err != nil {
		return err
	}
	what := "scheduling"
	if queue != "" {
		what = "queue " + queue
	}
	line := what + " goes on"
	if before == nil {
		line = what + " is not paused"
	}
	if _, err := fmt.Fprintln(streams.Out, line); err != nil {
		return err
	}
	others, err := standstill.Of(ctx, server, queue)
	if err != nil {
		return err
	}
	for _, other := range others {
		_, _ = fmt.Fprintf(streams.Err, "still: %s (`%s` ends it)\n", other, other.Remedy())
	}
	return nil
}
