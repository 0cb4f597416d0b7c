// Package put is the command `muster data put`.
package put

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/meter"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/person"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/ref"
)

var formats = []output.Format{output.JSON, output.YAML}

type options struct {
	factory  *connection.Factory
	format   *output.Format
	message  string
	tar      bool
	mirror   bool
	checksum bool
}

// New returns the command.
func New(f *connection.Factory) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:   "put PATH... DATASET[@BRANCH][:PATH]",
		Short: "Put files or folders into a branch, as one commit",
		Long: `Puts files or folders into a branch of a dataset (main, unless another is named),
as one commit. One folder's content goes to the path, several files and folders
below it, under their names. What is in the branch and has no namesake stays,
unless --mirror is given. - is standard input.

Where a commit of the branch is open (muster data open), it goes there, and what
that is to say is said to muster data close.

It returns once the commit is on disk. What was stored by a put that was broken
off is not stored again. A file is taken to be unchanged if its size and times
are as they were when it was last put from there; --checksum reads it all the
same.`,
		Example: `  muster data put images/ digits -m "the first thousand"
  muster data put images/ digits@next:/train --mirror
  muster data put labels.csv digits
  generate | muster data put - digits:/made.csv
  ssh elsewhere tar c images | muster data put - digits --tar`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: opening.Complete(f, 1),
	}
	cmd.Flags().StringVarP(&o.message, "message", "m", "", "what changed, in a sentence")
	cmd.Flags().BoolVar(&o.tar, "tar", false, "what is put are tar archives: put what is in them")
	cmd.Flags().BoolVar(&o.mirror, "mirror", false, "remove what is at the path and not in the folder")
	cmd.Flags().BoolVar(&o.checksum, "checksum", false, "read files even where their size and times have not changed")
	o.format = output.Flag(cmd, formats...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.format.Validate(formats...); err != nil {
			return err
		}
		sources, to, err := o.read(args)
		if err != nil {
			return err
		}
		return o.run(cmd.Context(), sources, to)
	}
	return cmd
}

func (o *options) run(ctx context.Context, sources []source, to address.Address) (err error) {
	d, err := opening.Open(ctx, o.factory, to.Dataset)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	branch, err := d.Head(ctx, to)
	if err != nil {
		return err
	}
	bar := meter.New(o.factory.Streams.Err, "Putting into "+to.Dataset+"@"+branch)
	defer bar.Stop()
	defer o.expect(ctx, sources, bar)()
	session, err := d.Session(ctx, branch)
	if err != nil {
		return err
	}
	// What is not committed is given up, also where ctx has ended.
	defer func() { err = errors.Join(err, session.Close(context.WithoutCancel(ctx))) }()
	for _, s := range sources {
		if err := o.add(ctx, session, s, bar); err != nil {
			return err
		}
		bar.Next()
	}
	result, err := session.Commit(ctx, data.CommitOptions{Author: person.Author(ctx, o.factory.Client), Message: o.message})
	if err != nil {
		return fmt.Errorf("putting into %s@%s: %w", to.Dataset, branch, err)
	}
	bar.Stop()
	document := Document{Dataset: to.Dataset, Branch: branch, Open: session.Target().Kind == ref.Open, SeenBytes: bar.Done().Bytes}
	if err := document.tell(ctx, d, result); err != nil {
		return fmt.Errorf("it is committed, but what it changed could not be found out: %w", err)
	}
	return o.report(document)
}

// add adds one source to what will be committed.
func (o *options) add(ctx context.Context, session *data.Session, s source, bar *meter.Meter) error {
	options := data.AddOptions{To: s.target, Replace: o.mirror, Checksum: o.checksum, Progress: bar.See}
	in := o.factory.Streams.In
	streamed, err := s.streamed()
	if err != nil {
		return err
	}
	if s.local != "" && (s.kind == archive || streamed) {
		opened, err := os.Open(s.local)
		if err != nil {
			return fmt.Errorf("opening what is to be put: %w", err)
		}
		defer func() { _ = opened.Close() }()
		in = opened
	}
	var from data.Source
	switch {
	case s.kind == archive:
		from = data.Tar(in)
	case s.kind == folder:
		from = data.Folder(s.local)
	case streamed:
		from, options.To = data.Stream(s.target, in), ""
	default:
		from, options.To = data.Folder(s.local), strings.TrimPrefix(path.Dir(s.target), ".")
	}
	if err := session.Add(ctx, from, options); err != nil {
		return fmt.Errorf("putting %s: %w", s.name(), err)
	}
	return nil
}

// streamed reports whether only the bytes of a file are put: those of a pipe, and
// of a file that gets another name than it has here.
func (s source) streamed() (bool, error) {
	if s.kind != file {
		return s.kind == stream, nil
	}
	actual, err := filepath.EvalSymlinks(s.local)
	if err != nil {
		return false, fmt.Errorf("looking at what is to be put: %w", err)
	}
	return path.Base(s.target) != filepath.Base(actual), nil
}

// name is what a source is called in messages.
func (s source) name() string {
	if s.local == "" {
		return "standard input"
	}
	return s.local
}
