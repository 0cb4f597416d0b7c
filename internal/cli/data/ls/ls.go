// Package ls is the command `muster data ls`.
package ls

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
)

var formats = []output.Format{output.JSON, output.YAML}

type options struct {
	factory   *connection.Factory
	format    *output.Format
	recursive bool
	all       bool
	now       func() time.Time
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f, now: time.Now}
	cmd := &cobra.Command{
		Use:     "ls [DATASET[@VERSION][:PATH]]",
		Aliases: []string{"list"},
		Short:   "List datasets, or what is in a version",
		Long: `Without an address, lists the datasets of the namespace. With one, lists what is
in that folder (everything below it with -r), the file of that name, or whatever
matches its pattern.

In -o json a path that is not UTF-8 has its bytes, as base64, in pathBytes, and the
target of a link in targetBytes.`,
		Example: `  muster data ls
  muster data ls digits
  muster data ls 'digits@v1:/train/*.png'`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: opening.Complete(f),
	}
	cmd.Flags().BoolVarP(&o.recursive, "recursive", "r", false, "list the files of all folders below, too")
	cmd.Flags().BoolVarP(&o.all, "all", "a", false, "list also the datasets that only pipelines read and write")
	o.format = output.Flag(cmd, formats...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.format.Validate(formats...); err != nil {
			return err
		}
		switch len(args) {
		case 0:
			return o.datasets(cmd.Context())
		case 1:
		default:
			return exit.Usage("one address at a time: what is %q? (Put patterns in quotes, so that your shell leaves them alone)", args[1])
		}
		a, err := address.Parse(args[0])
		if err != nil {
			return err
		}
		return o.version(cmd.Context(), a)
	}
	return cmd
}
