package diff

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data"
)

// Document is what -o json prints.
type Document struct {
	// From and To are the commits that were compared; From is empty where
	// everything is compared with nothing.
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	Sum
	// Changes are in order of paths; left out with --summary.
	Changes []Change `json:"changes,omitempty"`
}

// Sum counts what differs.
type Sum struct {
	Added   int64 `json:"added"`
	Changed int64 `json:"changed"`
	Removed int64 `json:"removed"`
}

// Change is one path.
type Change struct {
	Path string `json:"path"`
	// Change is added, changed or removed.
	Change string `json:"change"`
	// BytesBefore and Bytes are the sizes of the file.
	BytesBefore *int64 `json:"bytesBefore,omitempty"`
	Bytes       *int64 `json:"bytes,omitempty"`
}

func (o *options) run(ctx context.Context, before, after address.Address) error {
	d, err := opening.Open(ctx, o.factory, before.Dataset)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	to, err := d.View(ctx, after)
	if err != nil {
		return err
	}
	from, err := d.View(ctx, before)
	if err != nil && len(to.Commit().Parents) == 0 && before.Back == after.Back+1 {
		// The first commit has none before it: all of it is new.
		from, err = nil, nil
	}
	if err != nil {
		return err
	}
	if err := present(ctx, before, from, to); err != nil {
		return err
	}
	if *o.format == output.Human {
		return o.lines(ctx, before.Path, from, to)
	}
	document := Document{To: to.Commit().ID.String()}
	if from != nil {
		document.From = from.Commit().ID.String()
	}
	err = each(ctx, before.Path, from, to, &document.Sum, func(c Change) error {
		if !o.summary {
			document.Changes = append(document.Changes, c)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return output.Print(o.factory.Streams.Out, *o.format, document)
}

// present refuses a path that neither version has.
func present(ctx context.Context, a address.Address, views ...*data.View) error {
	if a.Path == "" {
		return nil
	}
	for _, view := range views {
		if view == nil {
			continue
		}
		_, err := view.Stat(ctx, a.Path)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return exit.NotFound("%s: neither version has such a file or folder", a)
}

// each tells what differs at a path and below it, and counts it.
func each(ctx context.Context, path string, from, to *data.View, sum *Sum, tell func(Change) error) error {
	return data.Diff(ctx, from, to, func(c data.Change) error {
		if path != "" && c.Path != path && !strings.HasPrefix(c.Path, path+"/") {
			return nil
		}
		change := Change{Path: c.Path, Change: "changed"}
		if c.From != nil {
			change.BytesBefore = &c.From.Size
		}
		if c.To != nil {
			change.Bytes = &c.To.Size
		}
		switch {
		case c.From == nil:
			change.Change = "added"
			sum.Added++
		case c.To == nil:
			change.Change = "removed"
			sum.Removed++
		default:
			sum.Changed++
		}
		return tell(change)
	})
}

// signs stand before paths, and have a colour.
var signs = map[string]struct {
	sign   string
	colour terminal.Colour
}{"added": {"+", terminal.Green}, "changed": {"~", terminal.Yellow}, "removed": {"-", terminal.Red}}

// lines prints as it goes: there may be millions.
func (o *options) lines(ctx context.Context, path string, from, to *data.View) error {
	out := bufio.NewWriter(o.factory.Streams.Out)
	style := o.factory.Streams.OutStyle()
	var sum Sum
	err := each(ctx, path, from, to, &sum, func(c Change) error {
		if o.summary {
			return nil
		}
		sign := signs[c.Change]
		_, err := fmt.Fprintf(out, "%s %s%s\n", style.Paint(sign.colour, sign.sign), c.Path, sizes(c))
		return err
	})
	if err != nil {
		return errors.Join(err, out.Flush())
	}
	_, _ = fmt.Fprintf(out, "%d added, %d changed, %d removed\n", sum.Added, sum.Changed, sum.Removed)
	return out.Flush()
}

// sizes says how large a file is, or how its size has changed.
func sizes(c Change) string {
	switch {
	case c.BytesBefore == nil && c.Bytes != nil:
		return " (" + terminal.Size64(*c.Bytes) + ")"
	case c.BytesBefore != nil && c.Bytes != nil && *c.BytesBefore != *c.Bytes:
		return " (" + terminal.Size64(*c.BytesBefore) + " -> " + terminal.Size64(*c.Bytes) + ")"
	}
	return ""
}
