// Package worker is the hidden command `muster worker`: what the members of the
// job run that computes a stage of a pipeline. Nobody types it.
package worker

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/foreman/worker"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	var folder string
	var gpus float64
	cmd := &cobra.Command{
		Use:    "worker --work FOLDER",
		Short:  "Compute datums of a stage (what its job runs)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if folder == "" {
				return exit.Usage("muster worker is run by the jobs of pipelines: use `muster pipeline`")
			}
			o := worker.Options{Folder: folder, GPUs: gpus, Environ: os.Environ(), Out: terminal.Bare(f.Streams.Err), Temporary: worker.Temporary(""), Dedicated: true}
			o.Name, o.Member = worker.Place()
			return worker.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&folder, "work", "", "folder of the work")
	cmd.Flags().Float64Var(&gpus, "gpus", 0, "GPUs that this worker holds")
	return cmd
}
