// Package trace is the command `muster data trace`.
package trace

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
	// made is what was made of it; all, also by what no branch or tag is at any more.
	made, all bool
	now       func() time.Time
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f, now: time.Now}
	cmd := &cobra.Command{
		Use:   "trace DATASET[@VERSION][:PATH]",
		Short: "Show what a file was made of, or what was made of it",
		Long: `Shows how a file came to be: the stage and the run that made it, with which command,
code, packages and parameters, out of which files of which commits, and how these came
to be, down to what somebody put there. Of a folder, or of a whole version, it is what
all of it was made of.

With --made it shows what was made of it: by which stage, where it is, and what was made
of that. It looks at what branches and tags are at now, or with --all at all commits that
led there. A file counts in whatever version it was read, as long as it is the same.

A file whose result has been removed since is known by its stage alone.`,
		Example: `  muster data trace models:/model.keras
  muster data trace labels@main~1
  muster data trace images:/train/0001.png --made`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: opening.Complete(f, 0),
	}
	cmd.Flags().BoolVar(&o.made, "made", false, "what was made of it, instead of what it was made of")
	cmd.Flags().BoolVar(&o.all, "all", false, "with --made, also in commits that no branch or tag is at any more")
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
		return address.Address{}, exit.Usage("trace which file? muster data trace models:/model.keras")
	case len(args) > 1:
		return address.Address{}, exit.Usage("one file at a time: what is %q?", args[1])
	case o.all && !o.made:
		return address.Address{}, exit.Usage("--all is about what was made: give --made, too")
	}
	a, err := address.Parse(args[0])
	if err == nil && address.IsPattern(a.Path) {
		err = exit.Usage("%s: give a file or a folder, not a pattern", args[0])
	}
	a.Path = address.Literal(a.Path)
	return a, err
}
