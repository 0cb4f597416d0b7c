package merge

import (
	"context"
	"errors"
	"fmt"

	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/conflict"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/person"
	"github.com/muster-dev/muster/internal/data"
)

// Document is what -o json prints.
type Document struct {
	Branch string `json:"branch"`
	Commit string `json:"commit"`
	// FastForward says that the branch had not changed since both parted, and has
	// only moved; Unchanged, that it had everything already.
	FastForward bool `json:"fastForward,omitempty"`
	Unchanged   bool `json:"unchanged,omitempty"`
}

func (o *options) run(ctx context.Context, a address.Address) error {
	d, err := opening.Open(ctx, o.factory, a.Dataset)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	if _, err := d.Commit(ctx, a); err != nil {
		return err
	}
	into := address.Address{Dataset: a.Dataset, Version: o.into}
	if _, err := d.Head(ctx, into); err != nil {
		return err
	}
	if _, err := d.Commit(ctx, into); err != nil {
		return err
	}
	message := o.message
	if message == "" {
		message = "Merge " + a.Revision() + " into " + o.into
	}
	result, err := d.Merge(ctx, data.MergeOptions{Into: o.into, From: a.Revision(), Author: person.Author(ctx, o.factory.Client), Message: message, Prefer: data.Prefer(o.prefer)})
	if both, ok := errors.AsType[*data.ConflictError](err); ok {
		return o.conflict(a, both)
	}
	if err != nil {
		return err
	}
	return o.report(a, result)
}

// conflict names the paths that both changed, and what can be done.
func (o *options) conflict(a address.Address, both *data.ConflictError) error {
	return exit.With(exit.Failure, fmt.Errorf("%s and %s both changed, differently:\n  %s\nnothing was merged: put into one of them what is to be there, and merge again (or let one win: --prefer %s, or --prefer %s)",
		a.Revision(), o.into, conflict.Paths(both), data.PreferInto, data.PreferFrom))
}

func (o *options) report(a address.Address, result data.MergeResult) error {
	document := Document{Branch: o.into, Commit: result.Commit.ID.String(), FastForward: result.FastForward, Unchanged: result.Unchanged}
	if *o.format != output.Human {
		return output.Print(o.factory.Streams.Out, *o.format, document)
	}
	at := result.Commit.ID.Short()
	sentence := fmt.Sprintf("%s merged into %s, which is at %s", a.Revision(), o.into, at)
	switch {
	case result.Unchanged:
		sentence = fmt.Sprintf("%s has all of %s already: nothing to be merged", o.into, a.Revision())
	case result.FastForward:
		sentence = fmt.Sprintf("%s merged into %s, which had not changed since: it moved to %s", a.Revision(), o.into, at)
	}
	_, err := fmt.Fprintln(o.factory.Streams.Out, sentence)
	return err
}
