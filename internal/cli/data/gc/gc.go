// Package gc is the command `muster data gc`.
package gc

import (
	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
)

var formats = []output.Format{output.JSON, output.YAML}

type options struct {
	factory *connection.Factory
	format  *output.Format
	dryRun  bool
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Free what no branch, tag or running command needs",
		Long: `Frees what nothing reaches any more: what only deleted datasets, branches and
tags had, and what commands left behind that were killed. Data that was stored
since the start of a running command stays for now; gc prints the process that
keeps it, and the end of that time. A killed command of this machine keeps
nothing; one of another machine keeps data for a quarter of an hour. Then gc
joins small objects that are needed, such as those of many small commits, into
larger ones, if there is room. muster up does the same once a day,
with what is older than a day; on a cluster the manager does, and nobody else
can.`,
		Example: "  muster data gc --dry-run\n  muster data gc",
		Args:    cobra.ArbitraryArgs,
	}
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "only say what would be freed")
	o.format = output.Flag(cmd, formats...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return exit.Usage("muster data gc is about the whole store: what is %q?", args[0])
		}
		if err := o.format.Validate(formats...); err != nil {
			return err
		}
		return o.run(cmd.Context())
	}
	return cmd
}
