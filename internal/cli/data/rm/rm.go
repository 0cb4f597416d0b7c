// Package rm is the command `muster data rm`.
package rm

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
	message string
	yes     bool
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:     "rm DATASET[@BRANCH][:PATH]...",
		Aliases: []string{"delete"},
		Short:   "Remove files from a branch, or a whole dataset",
		Long: `Removes files, folders or what matches from a branch, as one commit (or in its
open commit, see muster data open): older versions keep them. Without a path, removes the whole dataset with all of its
versions, after a question; muster data gc, or the manager of a cluster, then
frees its space.`,
		Example: `  muster data rm digits:/train/blurred
  muster data rm 'digits@next:/train/*.tmp' -m "no leftovers"
  muster data rm digits`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: opening.Complete(f),
	}
	cmd.Flags().StringVarP(&o.message, "message", "m", "", "why, in a sentence (default: what was removed)")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "remove a whole dataset without a question")
	o.format = output.Flag(cmd, formats...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		wanted, err := o.complete(args)
		if err != nil {
			return err
		}
		if wanted[0].HasPath {
			return o.paths(cmd.Context(), wanted)
		}
		return o.datasets(cmd.Context(), wanted)
	}
	return cmd
}

// complete reads what is to go: whole datasets, or paths of one branch.
func (o *options) complete(args []string) ([]address.Address, error) {
	if err := o.format.Validate(formats...); err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return nil, exit.Usage("remove what? muster data rm digits:/train/blurred removes that path, muster data rm digits the whole dataset")
	}
	var wanted []address.Address
	for _, arg := range args {
		a, err := address.ParseBranch(arg)
		if err != nil {
			return nil, err
		}
		switch {
		case a.HasPath && a.Path == "":
			return nil, exit.Usage("%s is everything: give '%s:/**' to empty the branch, or leave out the colon to remove the dataset", arg, a.Dataset)
		case !a.HasPath && a.Version != "":
			return nil, exit.Usage("%s is a whole branch: muster data branch %s %s --delete deletes it; give a path to remove files from it", arg, a.Dataset, a.Version)
		case len(wanted) > 0 && wanted[0].HasPath != a.HasPath:
			return nil, exit.Usage("%s and %s do not go together: give paths, or whole datasets", args[0], arg)
		case a.HasPath && len(wanted) > 0 && (wanted[0].Dataset != a.Dataset || wanted[0].Branch() != a.Branch()):
			return nil, exit.Usage("%s and %s are in different branches: remove one after the other", args[0], arg)
		}
		wanted = append(wanted, a)
	}
	return wanted, nil
}
