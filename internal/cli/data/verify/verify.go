// Package verify is the command `muster data verify`.
package verify

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
		Use:   "verify [DATASET...]",
		Short: "Read everything and check that it is whole",
		Long: `Reads everything that the branches and tags of the named datasets need (without a
name: of all datasets of the namespace), back to their first commits, and checks
it against its hashes. What is damaged or missing is named, with the first file
that it hits, and is exit code 1.`,
		Example:           "  muster data verify\n  muster data verify digits",
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
				return exit.Usage("%s: all versions of a dataset are read: give it alone, %s", arg, a.Dataset)
			}
		}
		return o.run(cmd.Context(), args)
	}
	return cmd
}
