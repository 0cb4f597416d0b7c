// Package resume is the command `muster resume`: starts suspended training
// jobs again.
package resume

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/suspension"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "resume JOB...",
		Short:   "Start suspended training jobs again",
		Long:    "Starts suspended training jobs again as soon as what they need is free.",
		Example: "  muster resume mnist",
		RunE:    func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), f, args) },
	}
	f.TakeJobs(cmd, "resume which job?")
	return cmd
}

func run(ctx context.Context, f *connection.Factory, names []string) error {
	server, namespace, err := f.Reach()
	if err != nil {
		return err
	}
	for _, name := range names {
		_, changed, err := suspension.Set(ctx, server, namespace, name, false)
		if err != nil {
			return err
		}
		word := "resumed: `muster why " + name + "` says what it waits for"
		if !changed {
			word = "is not suspended"
		}
		if _, err := fmt.Fprintln(f.Streams.Out, name+" "+word); err != nil {
			return err
		}
	}
	return nil
}
