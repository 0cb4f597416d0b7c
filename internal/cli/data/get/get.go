// Package get is the command `muster data get`.
package get

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
)

var formats = []output.Format{output.JSON, output.YAML}

// stdout is how standard output is named as a destination.
const stdout = "-"

type options struct {
	factory *connection.Factory
	format  *output.Format
	tar     bool
	mirror  bool
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "get DATASET[@VERSION][:PATH] [PATH]",
		Short: "Write a version, or a part of it, to this machine",
		Long: `Writes what a folder of a version holds, or what matches a pattern, into a folder
of this machine, or a file to a path; by default to one of the same name here.
What is there already with the same content is left alone, so that a get that
was broken off goes on where it was when it is typed again; a file with other
content is replaced. With --tar, writes an archive; - is standard output.`,
		Example: `  muster data get digits ./digits
  muster data get 'digits@v1:/train/*.png' ./some
  muster data get digits - --tar | ssh elsewhere tar x`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: opening.Complete(f, 0),
	}
	cmd.Flags().BoolVar(&o.tar, "tar", false, "write an archive")
	cmd.Flags().BoolVar(&o.mirror, "mirror", false, "remove from the folder what is not in the version")
	o.format = output.Flag(cmd, formats...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, to, err := o.complete(args)
		if err != nil {
			return err
		}
		return o.run(cmd.Context(), a, to)
	}
	return cmd
}

// complete reads the words; to is empty where no destination was given.
func (o *options) complete(args []string) (a address.Address, to string, err error) {
	if err := o.format.Validate(formats...); err != nil {
		return a, "", err
	}
	switch {
	case len(args) == 0:
		return a, "", exit.Usage("get what? muster data get digits ./digits")
	case len(args) > 2:
		return a, "", exit.Usage("one version at a time: what is %q? (Put patterns in quotes, so that your shell leaves them alone)", args[2])
	}
	if a, err = address.Parse(args[0]); err != nil {
		return a, "", err
	}
	if len(args) == 1 {
		return a, "", nil
	}
	switch to = args[1]; {
	case to == "":
		return a, "", exit.Usage("the path to write to is empty: is a variable of your shell not set?")
	case to == stdout && !o.tar:
		return a, "", exit.Usage("give --tar to write an archive to standard output; `muster data cat` writes one file")
	case to == stdout && *o.format != output.Human:
		return a, "", exit.Usage("standard output cannot be both the archive and -o %s: write the archive to a file", *o.format)
	case to == stdout && terminal.Is(o.factory.Streams.Out):
		return a, "", exit.Usage("an archive is nothing for a terminal: give a file, or a pipe")
	}
	return a, to, nil
}

// place is where on this machine something goes: for a file its own path, else
// the folder into which paths relative to base go.
func place(a address.Address, isFile bool, to string) (local string, err error) {
	source, name := address.Literal(a.Path), a.Dataset
	if address.IsPattern(a.Path) {
		source = address.Base(a.Path)
	}
	if source != "" {
		name = path.Base(source)
	}
	if to == "" {
		to = name
		if !isFile {
			return to, nil
		}
	}
	info, statErr := os.Stat(to)
	switch {
	case isFile && (strings.HasSuffix(to, "/") || statErr == nil && info.IsDir()):
		return filepath.Join(to, name), nil
	case !isFile && statErr == nil && !info.IsDir():
		return "", exit.Usage("%s is a file, and what is to be written is a folder: give a folder", to)
	}
	return to, nil
}
