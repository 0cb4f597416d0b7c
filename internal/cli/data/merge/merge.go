// Package merge is the command `muster data merge`.
package merge

import (
	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/conflict"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
)

var formats = []output.Format{output.JSON, output.YAML}

type options struct {
	factory *connection.Factory
	format  *output.Format
	into    string
	message string
	prefer  string
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "merge DATASET@VERSION",
		Short: "Bring what changed in a version into a branch",
		Long: `Brings into a branch (main, unless --into names another) what changed in a
version since both parted. Where the branch has not changed since, it moves to
that version. Paths that both changed, differently, are named, and nothing
happens, unless --prefer says whose change counts there.`,
		Example: `  muster data merge digits@cleaned
  muster data merge digits@cleaned --into next -m "without the blurred ones"`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: opening.Complete(f, 0),
	}
	cmd.Flags().StringVar(&o.into, "into", v1alpha1.DefaultBranch, "the branch that is to have it")
	cmd.Flags().StringVarP(&o.message, "message", "m", "", "what changed, in a sentence (default: what was merged)")
	conflict.Flag(cmd, &o.prefer, "whose change counts where both changed a path: into, from")
	o.format = output.Flag(cmd, formats...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, err := o.complete(args)
		if err != nil {
			return err
		}
		return o.run(cmd.Context(), a)
	}
	return cmd
}

func (o *options) complete(args []string) (address.Address, error) {
	if err := o.format.Validate(formats...); err != nil {
		return address.Address{}, err
	}
	switch {
	case len(args) == 0:
		return address.Address{}, exit.Usage("merge what? muster data merge digits@next brings the branch next into main")
	case len(args) > 1:
		return address.Address{}, exit.Usage("one version at a time: what is %q? The branch that is to have it is named by --into", args[1])
	}
	if err := conflict.Check(o.prefer, "that of the version that is merged"); err != nil {
		return address.Address{}, err
	}
	a, err := address.ParseBare(args[0])
	if err != nil {
		return a, err
	}
	if a.Revision() == o.into {
		return a, exit.Usage("%s: a branch cannot be merged into itself; give a version, such as %s@next, or name another branch by --into", args[0], a.Dataset)
	}
	return a, address.CheckRef("branch", o.into)
}
