package opencommit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/conflict"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/person"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
)

// CloseDocument is what -o json prints of a commit that was closed, or discarded.
type CloseDocument struct {
	Dataset string `json:"dataset"`
	Branch  string `json:"branch"`
	// Commit is what the branch is at now, empty where it is not there; of a commit that
	// was discarded, what that was at.
	Commit string `json:"commit,omitempty"`
	// Unchanged says that nothing had been put that the branch did not have.
	Unchanged bool `json:"unchanged,omitempty"`
	Discarded bool `json:"discarded,omitempty"`
	// Added, Changed and Removed count files, by the commit before.
	Added   int64 `json:"added"`
	Changed int64 `json:"changed"`
	Removed int64 `json:"removed"`
	// Files and Bytes are how much the commit holds.
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
}

type closing struct {
	factory *connection.Factory
	format  *output.Format
	message string
	prefer  string
	discard bool
}

// NewClose returns the command `muster data close`.
func NewClose(f *connection.Factory) *cobra.Command {
	o := &closing{factory: f}
	cmd := &cobra.Command{
		Use:   "close DATASET[@BRANCH]",
		Short: "Make what was put since muster data open one commit",
		Long: `Closes the open commit of a branch (main, unless another is named): what was put
since muster data open becomes one commit of the branch. Where that has moved
meanwhile, it goes on top, path by path; paths that both changed, differently, are
named, and the commit stays open, unless --prefer says whose change counts there.

With --discard, what was put is given up instead.`,
		Example: `  muster data close digits -m "the first thousand"
  muster data close digits@next --discard`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: opening.Complete(f, 0),
	}
	cmd.Flags().StringVarP(&o.message, "message", "m", "", "what changed, in a sentence (default: since when it was put)")
	conflict.Flag(cmd, &o.prefer, "whose change counts where the branch changed the same path: into (the branch's), from (what was put)")
	cmd.Flags().BoolVar(&o.discard, "discard", false, "give up what was put")
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

func (o *closing) complete(args []string) (address.Address, error) {
	if err := o.format.Validate(formats...); err != nil {
		return address.Address{}, err
	}
	if err := conflict.Check(o.prefer, "what was put"); err != nil {
		return address.Address{}, err
	}
	if o.discard && (o.message != "" || o.prefer != "") {
		return address.Address{}, exit.Usage("--discard gives up what was put: leave out --message and --prefer, or --discard")
	}
	return branchOf("close", args)
}

func (o *closing) run(ctx context.Context, a address.Address) (err error) {
	d, err := opening.Open(ctx, o.factory, a.Dataset)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	document := CloseDocument{Dataset: a.Dataset, Branch: a.Branch()}
	if o.discard {
		at, err := d.DiscardCommit(ctx, a.Branch())
		if err != nil {
			return none(a, err)
		}
		document.Commit, document.Discarded = at.String(), true
		return o.report(document)
	}
	message, err := o.words(ctx, a)
	if err != nil {
		return err
	}
	result, err := d.CloseCommit(ctx, data.CloseOptions{Branch: a.Branch(), Author: person.Author(ctx, o.factory.Client), Message: message, Prefer: data.Prefer(o.prefer)})
	if both, ok := errors.AsType[*data.ConflictError](err); ok {
		return o.conflict(a, both)
	}
	if err != nil {
		return none(a, err)
	}
	if err := document.tell(ctx, d, result); err != nil {
		return fmt.Errorf("it is closed, but what it changed could not be found out: %w", err)
	}
	return o.report(document)
}

// words is what the commit says.
func (o *closing) words(ctx context.Context, a address.Address) (string, error) {
	if o.message != "" {
		return o.message, nil
	}
	server, namespace, err := opening.Server(o.factory)
	if err != nil {
		return "", err
	}
	object, err := opening.Object(ctx, server, namespace, a.Dataset)
	if err != nil {
		return "", err
	}
	for _, open := range object.Spec.Open {
		if string(open.Name) == a.Branch() && open.Opened != nil {
			return "What was put since " + open.Opened.UTC().Format("2006-01-02 15:04:05 MST"), nil
		}
	}
	return "What was put while it was open", nil
}

// none says that no commit is open.
func none(a address.Address, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return exit.NotFound("%s has no open commit: muster data open %s opens one, muster data branch %s shows which there are", a, a, a.Dataset)
	}
	return err
}

// tell fills in what came of it.
func (d *CloseDocument) tell(ctx context.Context, in *opening.Dataset, r data.CloseResult) error {
	if d.Unchanged = r.Unchanged; r.Commit.ID.IsZero() {
		return nil
	}
	d.Commit, d.Files, d.Bytes = r.Commit.ID.String(), r.Commit.Tree.Files, r.Commit.Tree.Bytes
	if r.Unchanged {
		return nil
	}
	var before digest.ID
	if len(r.Commit.Parents) > 0 {
		before = r.Commit.Parents[0]
	}
	changes, err := in.Changes(ctx, before, r.Commit.ID)
	d.Added, d.Changed, d.Removed = changes.Added, changes.Changed, changes.Removed
	return err
}

// conflict names the paths that both changed, and what can be done.
func (o *closing) conflict(a address.Address, both *data.ConflictError) error {
	return exit.With(exit.Failure, fmt.Errorf("while the commit was open, %s changed the same paths, differently:\n  %s\nit is open still: say whose change counts (--prefer %s: the branch's, --prefer %s: what was put), or give it up (--discard)",
		a, conflict.Paths(both), data.PreferInto, data.PreferFrom))
}

func (o *closing) report(d CloseDocument) error {
	if *o.format != output.Human {
		return output.Print(o.factory.Streams.Out, *o.format, d)
	}
	short := d.Commit[:min(12, len(d.Commit))]
	sentence := fmt.Sprintf("%s@%s is at %s: %d added, %d changed, %d removed", d.Dataset, d.Branch, short, d.Added, d.Changed, d.Removed)
	switch {
	case d.Discarded:
		sentence = fmt.Sprintf("what was put into %s@%s is given up; it was at %s (until it is collected, muster data branch %s@%s NAME makes a branch of it)", d.Dataset, d.Branch, d.Commit, d.Dataset, short)
	case d.Commit == "":
		sentence = fmt.Sprintf("closed: nothing had been put, and %s has no branch %s yet", d.Dataset, d.Branch)
	case d.Unchanged:
		sentence = fmt.Sprintf("closed: nothing had been put that %s@%s does not have, and it is at %s still", d.Dataset, d.Branch, short)
	}
	_, err := fmt.Fprintln(o.factory.Streams.Out, sentence)
	return err
}
