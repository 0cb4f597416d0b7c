// Package label is what `muster data branch` and `muster data tag` have in
// common: they list, make and delete names of commits.
//
// It must not know what a commit holds.
package label

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/suggestion"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data/ref"
)

var formats = []output.Format{output.JSON, output.YAML}

// plural is what several are called.
var plural = map[ref.Kind]string{ref.Branch: "branches", ref.Tag: "tags"}

// Item is one branch or tag, as -o json prints it.
type Item struct {
	Name   string `json:"name"`
	Commit string `json:"commit"`
	// Files and Bytes are of the commit that a branch is at.
	Files *int64 `json:"files,omitempty"`
	Bytes *int64 `json:"bytes,omitempty"`
	// Since is when the branch came there, or the tag was made.
	Since *time.Time `json:"since,omitempty"`
	// Open is the commit of the branch that is not closed yet. Where the branch has no
	// other, its own commit is empty.
	Open *Open `json:"open,omitempty"`
}

// Open is a commit that is not closed yet.
type Open struct {
	Commit string `json:"commit"`
	Files  int64  `json:"files"`
	Bytes  int64  `json:"bytes"`
	// Since is when it was opened, Moved when something was put into it.
	Since *time.Time `json:"since,omitempty"`
	Moved *time.Time `json:"moved,omitempty"`
}

type options struct {
	factory *connection.Factory
	format  *output.Format
	kind    ref.Kind
	remove  bool
	move    bool
	now     func() time.Time
}

// Add gives a command what both have in common.
func Add(f *connection.Factory, cmd *cobra.Command, kind ref.Kind) *cobra.Command {
	o := &options{factory: f, kind: kind, now: time.Now}
	cmd.Args = cobra.ArbitraryArgs
	cmd.ValidArgsFunction = opening.Complete(f, 0)
	cmd.Flags().BoolVar(&o.remove, "delete", false, fmt.Sprintf("delete the %s; its commits stay as long as something else reaches them", kind))
	if kind == ref.Branch {
		cmd.Flags().BoolVar(&o.move, "move", false, "a branch that is there already goes to that version, too")
	}
	o.format = output.Flag(cmd, formats...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, name, err := o.complete(args)
		if err != nil {
			return err
		}
		return o.run(cmd.Context(), a, name)
	}
	return cmd
}

// complete reads the words; no name: the list is wanted.
func (o *options) complete(args []string) (address.Address, string, error) {
	if err := o.format.Validate(formats...); err != nil {
		return address.Address{}, "", err
	}
	switch {
	case len(args) == 0:
		return address.Address{}, "", exit.Usage("the %[2]s of which dataset? muster data %[1]s digits lists them, and muster data %[1]s digits NAME makes one", o.kind, plural[o.kind])
	case len(args) > 2:
		return address.Address{}, "", exit.Usage("one %s at a time: what is %q?", o.kind, args[2])
	}
	a, err := address.ParseBare(args[0])
	if err != nil {
		return a, "", err
	}
	if len(args) == 1 {
		switch {
		case o.move:
			return a, "", exit.Usage("move which branch of %[1]s? muster data branch %[1]s@VERSION NAME --move", a.Dataset)
		case o.remove:
			return a, "", exit.Usage("delete which %[1]s of %[2]s? muster data %[1]s %[2]s NAME --delete", o.kind, a.Dataset)
		case a.Version != "":
			return a, "", exit.Usage("%[2]s: what shall the new %[1]s be called? muster data %[1]s %[2]s NAME; to list those there are, leave out @%[3]s", o.kind, args[0], a.Revision())
		}
		return a, "", nil
	}
	if o.remove && o.move {
		return a, "", exit.Usage("--delete and --move do not go together: give one")
	}
	if o.remove && a.Version != "" {
		return a, "", exit.Usage("%s: a %s is deleted by its name alone: muster data %s %s %s --delete", args[0], o.kind, o.kind, a.Dataset, args[1])
	}
	return a, args[1], address.CheckRef(string(o.kind), args[1])
}

func (o *options) run(ctx context.Context, a address.Address, name string) error {
	if name == "" {
		return o.list(ctx, a)
	}
	d, err := opening.Open(ctx, o.factory, a.Dataset)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	head := ref.Name{Kind: o.kind, Name: name}
	if o.remove {
		return o.delete(ctx, d, head)
	}
	return o.make(ctx, d, a, head)
}

// make makes a head where the address says, or moves a branch there.
func (o *options) make(ctx context.Context, d *opening.Dataset, a address.Address, head ref.Name) error {
	found, err := d.Commit(ctx, a)
	if err != nil {
		return err
	}
	before, getting := d.Heads.Get(ctx, head)
	if getting != nil && !errors.Is(getting, fs.ErrNotExist) {
		return getting
	}
	if o.move && getting == nil {
		if err := d.Reset(ctx, head.Name, found.ID.String()); err != nil {
			return err
		}
		return o.report(Item{Name: head.Name, Commit: found.ID.String()}, fmt.Sprintf("%s is at %s (%s); it was at %s", head, found.ID.Short(), a.Revision(), before))
	}
	if err := d.Create(ctx, head, found.ID.String()); err != nil {
		if moved, ok := errors.AsType[*ref.MovedError](err); ok {
			return exit.With(exit.Failure, fmt.Errorf("%w: %s", moved, o.otherwise(a, head)))
		}
		return err
	}
	return o.report(Item{Name: head.Name, Commit: found.ID.String()}, fmt.Sprintf("%s is at %s (%s)", head, found.ID.Short(), a.Revision()))
}

// otherwise says what to do about a name that is taken.
func (o *options) otherwise(a address.Address, head ref.Name) string {
	words := fmt.Sprintf("choose another name, or delete it first (muster data %s %s %s --delete)", o.kind, a.Dataset, head.Name)
	if o.kind == ref.Branch {
		words += ", or move it with --move"
	}
	return words
}

// delete takes a head away, and says how it comes back.
func (o *options) delete(ctx context.Context, d *opening.Dataset, head ref.Name) error {
	at, err := d.Heads.Get(ctx, head)
	if errors.Is(err, fs.ErrNotExist) {
		return o.missing(ctx, d, head)
	}
	if err != nil {
		return err
	}
	if err := d.Remove(ctx, head); err != nil {
		return err
	}
	item := Item{Name: head.Name, Commit: at.String()}
	return o.report(item, fmt.Sprintf("%s deleted; it was at %s", head, at))
}

func (o *options) missing(ctx context.Context, d *opening.Dataset, head ref.Name) error {
	var names []string
	if heads, err := d.Heads.List(ctx); err == nil {
		for name := range heads {
			if name.Kind == head.Kind {
				names = append(names, name.Name)
			}
		}
	}
	return exit.NotFound("dataset %s has no %s%s", d.Name, head, suggestion.Phrase(head.Name, names))
}

func (o *options) report(item Item, sentence string) error {
	if *o.format != output.Human {
		return output.Print(o.factory.Streams.Out, *o.format, item)
	}
	_, err := fmt.Fprintln(o.factory.Streams.Out, sentence)
	return err
}

func (o *options) list(ctx context.Context, a address.Address) error {
	server, namespace, err := opening.Server(o.factory)
	if err != nil {
		return err
	}
	object, err := opening.Object(ctx, server, namespace, a.Dataset)
	if err != nil {
		return err
	}
	items := tags(object)
	if o.kind == ref.Branch {
		items = branches(object)
	}
	if *o.format != output.Human {
		return output.Print(o.factory.Streams.Out, *o.format, items)
	}
	if len(items) == 0 {
		_, err := fmt.Fprintf(o.factory.Streams.Err, "Dataset %s has no %s yet.\n", a.Dataset, plural[o.kind])
		return err
	}
	return o.table(items).Write(o.factory.Streams.Out, o.factory.Streams.OutStyle(), "")
}

func branches(object *v1alpha1.Dataset) []Item {
	items := []Item{}
	for _, b := range object.Spec.Branches {
		item := Item{Name: string(b.Name), Commit: string(b.Commit), Files: &b.Files, Bytes: &b.Bytes}
		if b.Moved != nil {
			item.Since = &b.Moved.Time
		}
		items = append(items, item)
	}
	for i := range object.Spec.Open {
		o := &object.Spec.Open[i]
		open := &Open{Commit: string(o.Commit), Files: o.Files, Bytes: o.Bytes}
		if o.Opened != nil {
			open.Since = &o.Opened.Time
		}
		if o.Moved != nil {
			open.Moved = &o.Moved.Time
		}
		if k := slices.IndexFunc(items, func(item Item) bool { return item.Name == string(o.Name) }); k >= 0 {
			items[k].Open = open
		} else {
			items = append(items, Item{Name: string(o.Name), Open: open})
		}
	}
	return items
}

func tags(object *v1alpha1.Dataset) []Item {
	items := []Item{}
	for _, t := range object.Spec.Tags {
		item := Item{Name: string(t.Name), Commit: string(t.Commit)}
		if t.Made != nil {
			item.Since = &t.Made.Time
		}
		items = append(items, item)
	}
	return items
}

func (o *options) table(items []Item) *terminal.Table {
	if o.kind == ref.Tag {
		table := terminal.NewTable("TAG", "COMMIT", "MADE")
		for _, item := range items {
			table.Row(item.Name, short(item.Commit), o.ago(item.Since))
		}
		return table
	}
	columns := []string{"BRANCH", "COMMIT", "MOVED", "FILES", "SIZE"}
	open := slices.ContainsFunc(items, func(item Item) bool { return item.Open != nil })
	if open {
		columns = append(columns, "OPEN", "OPENED", "FILES", "SIZE")
	}
	table := terminal.NewTable(columns...)
	for _, item := range items {
		cells := []string{item.Name, "-", "-", "-", "-"}
		if item.Files != nil {
			cells = []string{item.Name, short(item.Commit), o.ago(item.Since), fmt.Sprint(*item.Files), terminal.Size64(*item.Bytes)}
		}
		if item.Open != nil {
			cells = append(cells, short(item.Open.Commit), o.ago(item.Open.Since), fmt.Sprint(item.Open.Files), terminal.Size64(item.Open.Bytes))
		} else if open {
			cells = append(cells, "-", "-", "-", "-")
		}
		table.Row(cells...)
	}
	return table
}

func short(commit string) string { return commit[:min(12, len(commit))] }

func (o *options) ago(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return terminal.WholeSpan(max(o.now().Sub(*t), 0)) + " ago"
}
