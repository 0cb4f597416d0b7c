// Package opencommit is the commands `muster data open` and `muster data close`: between
// them, whatever is put into a branch becomes one commit.
package opencommit

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/person"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/ref"
)

var formats = []output.Format{output.JSON, output.YAML}

// OpenDocument is what -o json prints of a commit that was opened.
type OpenDocument struct {
	Dataset string `json:"dataset"`
	Branch  string `json:"branch"`
	// Commit is what was opened: as large as the branch, to which nothing was added.
	Commit string `json:"commit"`
}

// NewOpen returns the command `muster data open`.
func NewOpen(f *connection.Factory) *cobra.Command {
	var format *output.Format
	cmd := &cobra.Command{
		Use:   "open DATASET[@BRANCH]",
		Short: "Have many writes to a branch become one commit",
		Long: `Opens a commit of a branch (main, unless another is named, which need not be there
yet). What is put into the branch from now on, by S3 clients, muster data put and
muster data rm, is in that commit: on disk when it is acknowledged, and seen by S3
clients, but not by anybody else. muster data close makes it one commit of the
branch, which is when jobs read it and pipelines start for it.

muster data branch shows what is open.`,
		Example: `  muster data open digits
  aws s3 sync images/ s3://digits/main/images
  muster data close digits -m "the first thousand"`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: opening.Complete(f, 0),
	}
	format = output.Flag(cmd, formats...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := format.Validate(formats...); err != nil {
			return err
		}
		a, err := branchOf("open", args)
		if err != nil {
			return err
		}
		return open(cmd.Context(), f, *format, a)
	}
	return cmd
}

// branchOf reads the branch that is meant.
func branchOf(verb string, args []string) (address.Address, error) {
	switch {
	case len(args) == 0:
		return address.Address{}, exit.Usage("a commit of what? muster data %s digits is for its branch main, muster data %s digits@next for another", verb, verb)
	case len(args) > 1:
		return address.Address{}, exit.Usage("one branch at a time: what is %q?", args[1])
	}
	a, err := address.ParseBranch(args[0])
	if err == nil && a.HasPath {
		err = exit.Usage("%s: a commit is of a whole branch: leave out the path", args[0])
	}
	return a, err
}

func open(ctx context.Context, f *connection.Factory, format output.Format, a address.Address) (err error) {
	d, err := opening.Open(ctx, f, a.Dataset)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	branch, err := d.Head(ctx, a)
	if err != nil {
		return err
	}
	opened, err := d.OpenCommit(ctx, branch, person.Author(ctx, f.Client))
	if moved, ok := errors.AsType[*ref.MovedError](err); ok && moved.Name.Kind == ref.Open {
		return exit.With(exit.Failure, fmt.Errorf("%s has an open commit already, which is at %s: muster data close %s closes it, and with --discard gives it up", a, moved.Found.Short(), a))
	}
	if err != nil {
		return err
	}
	document := OpenDocument{Dataset: a.Dataset, Branch: branch, Commit: opened.ID.String()}
	if format != output.Human {
		return output.Print(f.Streams.Out, format, document)
	}
	what := a.Dataset + "@" + branch
	if len(opened.Parents) == 0 && branch != data.DefaultBranch {
		what += ", a new branch"
	}
	_, err = fmt.Fprintf(f.Streams.Out, "%s: a commit is open, for what is put by S3 clients, muster data put and rm; muster data close %s makes it one of the branch\n", what, a)
	return err
}
