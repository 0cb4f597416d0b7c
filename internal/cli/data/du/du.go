// Package du is the command `muster data du`.
package du

import (
	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
)

var formats = []output.Format{output.JSON, output.YAML}

type options struct {
	factory *connection.Factory
	format  *output.Format
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "du [DATASET...]",
		Short: "Show how much room data takes",
		Long: `Shows how large the branches of datasets and their open commits are as files, and
what the store takes on disk: with all versions of all datasets, what is equal once,
and compressed where that helps.`,
		Example:           "  muster data du\n  muster data du digits",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: opening.Complete(f),
	}
	o.format = output.Flag(cmd, formats...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.format.Validate(formats...); err != nil {
			return err
		}
		for _, arg := range args {
			a, err := address.ParseBare(arg)
			if err != nil {
				return err
			}
			if a.Version != "" {
				return exit.Usage("%s: versions share what they have in common: give the dataset alone, %s", arg, a.Dataset)
			}
		}
		return o.run(cmd.Context(), args)
	}
	return cmd
}
