package log

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/cli/data/address"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
)

// messageWidth is how much of a message a table shows.
const messageWidth = 60

// Item is one commit, as -o json prints it.
type Item struct {
	Commit  string    `json:"commit"`
	Parents []string  `json:"parents,omitempty"`
	Author  string    `json:"author,omitempty"`
	Message string    `json:"message,omitempty"`
	Time    time.Time `json:"time"`
	// Heads are the branches and tags that are at it.
	Heads []string `json:"heads,omitempty"`
	Files int64    `json:"files"`
	Bytes int64    `json:"bytes"`
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
	at, err := labels(ctx, d)
	if err != nil {
		return err
	}
	items := []Item{}
	err = d.Log(ctx, a.Revision(), func(c commit.Commit) error {
		items = append(items, item(c, at[c.ID]))
		if o.max > 0 && len(items) == o.max {
			return data.Stop
		}
		return nil
	})
	if err != nil {
		return err
	}
	if *o.format != output.Human {
		return output.Print(o.factory.Streams.Out, *o.format, items)
	}
	return o.table(items).Write(o.factory.Streams.Out, o.factory.Streams.OutStyle(), "")
}

// labels are the branches and tags by what they are at.
func labels(ctx context.Context, d *opening.Dataset) (map[digest.ID][]string, error) {
	heads, err := d.Heads.List(ctx)
	if err != nil {
		return nil, err
	}
	at := map[digest.ID][]string{}
	for name, id := range heads {
		if name.Kind != ref.Open {
			at[id] = append(at[id], name.Name)
		}
	}
	for _, names := range at {
		slices.Sort(names)
	}
	return at, nil
}

func item(c commit.Commit, heads []string) Item {
	out := Item{
		Commit: c.ID.String(), Author: c.Author, Message: c.Message, Time: c.Time.UTC(), Heads: heads,
		Files: c.Tree.Files, Bytes: c.Tree.Bytes,
	}
	for _, parent := range c.Parents {
		out.Parents = append(out.Parents, parent.String())
	}
	return out
}

func (o *options) table(items []Item) *terminal.Table {
	table := terminal.NewTable("COMMIT", "WHEN", "AUTHOR", "FILES", "SIZE", "AT", "MESSAGE")
	for _, one := range items {
		message, _, _ := strings.Cut(one.Message, "\n")
		table.Row(one.Commit[:12], terminal.WholeSpan(max(o.now().Sub(one.Time), 0))+" ago", one.Author,
			fmt.Sprint(one.Files), terminal.Size64(one.Bytes), strings.Join(one.Heads, ","), terminal.Shorten(message, messageWidth))
		table.Paint(0, terminal.Yellow)
	}
	return table
}
