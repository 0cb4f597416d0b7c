// Package log is the command `muster data log`.
package log

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
	factory *connection.Factory
	format  *output.Format
	max     int
	now     func() time.Time
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f, now: time.Now}
	cmd := &cobra.Command{
		Use:   "log DATASET[@VERSION]",
		Short: "Show the commits that led to a version",
		Long: `Shows the commits that led to a version, the last first, and which branches and
tags are at them.`,
		Example:           "  muster data log digits\n  muster data log digits@v1 --max 5",
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: opening.Complete(f, 0),
	}
	cmd.Flags().IntVar(&o.max, "max", 0, "show at most so many (default: all)")
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
		return address.Address{}, exit.Usage("the log of which dataset? muster data log digits")
	case len(args) > 1:
		return address.Address{}, exit.Usage("one dataset at a time: what is %q?", args[1])
	case o.max < 0:
		return address.Address{}, exit.Usage("--max %d: give 1 or more, or 0 for all", o.max)
	}
	return address.ParseBare(args[0])
}
