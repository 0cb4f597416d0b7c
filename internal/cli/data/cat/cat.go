// Package cat is the command `muster data cat`.
package cat

import (
	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
)

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "cat DATASET[@VERSION]:PATH...",
		Short: "Write files to standard output",
		Long: `Writes files of datasets to standard output, one after the other; those that
match a pattern in the order of their names.`,
		Example: `  muster data cat digits:/labels.csv
  muster data cat 'digits@v1:/parts/*.csv' > all.csv`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: opening.Complete(f),
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := complete(args)
			if err != nil {
				return err
			}
			return run(cmd.Context(), f, wanted)
		},
	}
}

func complete(args []string) ([]address.Address, error) {
	if len(args) == 0 {
		return nil, exit.Usage("which file? muster data cat digits:/labels.csv")
	}
	var wanted []address.Address
	for _, arg := range args {
		a, err := address.Parse(arg)
		if err != nil {
			return nil, err
		}
		if a.Path == "" {
			return nil, exit.Usage("%s: give the path of a file, such as %s:/file; `muster data ls` lists them", arg, a.Dataset)
		}
		wanted = append(wanted, a)
	}
	return wanted, nil
}
