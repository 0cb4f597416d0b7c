// Package suspend is the command `muster suspend`: stops training jobs and
// frees what they hold, to go on later.
package suspend

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/removal"
	"github.com/muster-dev/muster/internal/cli/suspension"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	noWait := false
	cmd := &cobra.Command{
		Use:   "suspend JOB...",
		Short: "Stop training jobs and free their GPUs, to go on later",
		Long: `Stops the members of training jobs and frees everything they hold, keeping the
jobs, their volumes and their checkpoints. muster resume starts them again,
from the last checkpoint if the script saves any.`,
		Example: "  muster suspend mnist",
		RunE:    func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), f, args, noWait) },
	}
	f.TakeJobs(cmd, "suspend which job?")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return at once; they stop all the same")
	return cmd
}

func run(ctx context.Context, f *connection.Factory, names []string, noWait bool) error {
	server, namespace, err := f.Reach()
	if err != nil {
		return err
	}
	for _, name := range names {
		job, changed, err := suspension.Set(ctx, server, namespace, name, true)
		if err != nil {
			return err
		}
		word := "suspended"
		switch {
		case !changed:
			word = "is suspended already"
		case noWait:
			word = "stopping"
		default:
			progress := terminal.NewProgress(f.Streams.Err, "Stopping "+name, terminal.Things)
			err := suspension.WaitStopped(ctx, server, job, func(left removal.Left) { progress.Say(left.String()) })
			progress.Stop()
			if err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(f.Streams.Out, name+" "+word); err != nil {
			return err
		}
	}
	return nil
}
