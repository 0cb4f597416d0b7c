// Package results is the command `muster pipeline results`: what stages have computed,
// carried from one Muster to another.
package results

import (
	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/pipeline/lookup"
)

var formats = []output.Format{output.JSON, output.YAML}

// stdio is standard input or output in place of a file.
const stdio = "-"

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "results",
		Short: "Carry what stages computed from one Muster to another",
		Long: `A result is kept by what it was computed from: files, code, arguments, variables and the
environment as it was resolved. Where all of that is the same, a run of another Muster
would compute the same, so it takes results that were brought from here; where it is
not, ` + "`muster pipeline explain PIPELINE --next`" + ` says there what differs.`,
		Example: `  muster pipeline results export digits digits.tar
  muster --context cluster pipeline results import digits.tar
  muster pipeline results export digits | ssh gpu-box muster pipeline results import`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return exit.Usage("muster pipeline results %s: there is no such command; there are export and import", args[0])
		},
	}
	cmd.AddCommand(exportCommand(f), importCommand(f))
	return cmd
}

func exportCommand(f *connection.Factory) *cobra.Command {
	o := &exporting{factory: f}
	cmd := &cobra.Command{
		Use:   "export PIPELINE [FILE]",
		Short: "Write the results of a pipeline's stages to an archive",
		Long: `Writes an archive of the results that the stages of a pipeline have by their last runs,
with their logs, to a file, or to standard output. Those of impure stages count for one
run alone, and stay here.`,
		Example:           `  muster pipeline results export digits digits.tar`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: lookup.Complete(f, false),
	}
	o.format = output.Flag(cmd, formats...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.format.Validate(formats...); err != nil {
			return err
		}
		if len(args) == 0 || len(args) > 2 {
			return exit.Usage("name a pipeline, and a file if it is not to go to standard output")
		}
		return o.run(cmd.Context(), args[0], fileOf(args[1:]))
	}
	return cmd
}

func importCommand(f *connection.Factory) *cobra.Command {
	o := &importing{factory: f}
	cmd := &cobra.Command{
		Use:   "import [FILE]",
		Short: "Take the results of an archive",
		Long: `Takes the results of an archive that ` + "`muster pipeline results export`" + ` made, from a file or
standard input: all that are not here yet, or none where the archive is not whole. Any
pipeline of the namespace takes them where it would compute the same. That they came of
what they say they came of is believed: take archives from whom you would take code.`,
		Example: `  muster pipeline results import digits.tar`,
		Args:    cobra.ArbitraryArgs,
	}
	o.format = output.Flag(cmd, formats...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.format.Validate(formats...); err != nil {
			return err
		}
		if len(args) > 1 {
			return exit.Usage("one archive at a time: what is %q?", args[1])
		}
		return o.run(cmd.Context(), fileOf(args))
	}
	return cmd
}

func fileOf(args []string) string {
	if len(args) == 0 {
		return stdio
	}
	return args[0]
}
