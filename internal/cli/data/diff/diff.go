// Package diff is the command `muster data diff`.
package diff

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
	summary bool
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "diff DATASET[@VERSION][:PATH] [DATASET@VERSION]",
		Short: "Show what differs between two versions",
		Long: `Shows which files differ between two versions of a dataset, from the first to the
second: + is in the second alone, - in the first alone, ~ in both with different
contents. With one version, shows what it changed: since the commit before it.
With a path, only what is there. It costs what differs, not what is there.`,
		Example: `  muster data diff digits
  muster data diff digits@v1 digits@v2
  muster data diff digits@v1:/train digits`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: opening.Complete(f),
	}
	cmd.Flags().BoolVar(&o.summary, "summary", false, "only how much differs")
	o.format = output.Flag(cmd, formats...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		before, after, err := o.complete(args)
		if err != nil {
			return err
		}
		return o.run(cmd.Context(), before, after)
	}
	return cmd
}

// complete returns the two versions; the first with the path.
func (o *options) complete(args []string) (before, after address.Address, err error) {
	if err := o.format.Validate(formats...); err != nil {
		return before, after, err
	}
	switch len(args) {
	case 1, 2:
	case 0:
		return before, after, exit.Usage("compare which versions? muster data diff digits@v1 digits")
	default:
		return before, after, exit.Usage("two versions at a time: what is %q?", args[2])
	}
	if before, err = address.Parse(args[0]); err != nil {
		return before, after, err
	}
	if address.IsPattern(before.Path) {
		return before, after, exit.Usage("%s: give a folder or a file, not a pattern", args[0])
	}
	before.Path = address.Literal(before.Path)
	if len(args) == 1 {
		after = before
		before.Back++
		return before, after, nil
	}
	if after, err = address.Parse(args[1]); err != nil {
		return before, after, err
	}
	switch {
	case after.Dataset != before.Dataset:
		return before, after, exit.Usage("%s and %s: only versions of one dataset can be compared", args[0], args[1])
	case after.HasPath && address.Literal(after.Path) != before.Path:
		return before, after, exit.Usage("%s and %s name different paths: give the path with the first", args[0], args[1])
	}
	return before, after, nil
}
