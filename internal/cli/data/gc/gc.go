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
tags had, and what commands left behind that were killed. What was stored since
the start of a command that still runs stays for now, and gc prints until when,
and which process keeps it. A command of this machine that was killed keeps
nothing; one of another machine keeps data for a quarter of an hour. Small
objects that are needed, such as many small commits leave, are joined into
larger ones afterwards, where there is room. muster up does the same once a day,
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
