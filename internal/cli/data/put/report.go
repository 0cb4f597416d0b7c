package put

import (
	"context"
	"fmt"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/output"
	"github.com/muster-dev/muster/internal/cli/terminal"
	"github.com/muster-dev/muster/internal/data"
)

// Document is what -o json prints.
type Document struct {
	Dataset string `json:"dataset"`
	Branch  string `json:"branch"`
	// Commit is what the branch is at; Unchanged says that it was there before.
	Commit    string `json:"commit"`
	Unchanged bool   `json:"unchanged,omitempty"`
	// NewBranch says that the branch was not there before.
	NewBranch bool `json:"newBranch,omitempty"`
	// Open says that it went to the open commit of the branch, which is what Commit and
	// all else that is said here is of.
	Open bool `json:"open,omitempty"`
	// Added, Changed and Removed count files, by the commit before.
	Added   int64 `json:"added"`
	Changed int64 `json:"changed"`
	Removed int64 `json:"removed"`
	// Files and Bytes are how much the commit holds.
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
	// SeenBytes is the size of what was given, StoredBytes what was written to the
	// store for it.
	SeenBytes   int64 `json:"seenBytes"`
	StoredBytes int64 `json:"storedBytes"`
}

// tell fills in what came of it.
func (d *Document) tell(ctx context.Context, in *opening.Dataset, r data.PutResult) error {
	d.Commit, d.Unchanged, d.StoredBytes = r.Commit.ID.String(), r.Unchanged, r.Stored
	d.NewBranch = r.Before.IsZero()
	d.Files, d.Bytes = r.Commit.Tree.Files, r.Commit.Tree.Bytes
	if r.Unchanged {
		return nil
	}
	changes, err := in.Changes(ctx, r.Before, r.Commit.ID)
	d.Added, d.Changed, d.Removed = changes.Added, changes.Changed, changes.Removed
	return err
}

func (o *options) report(d Document) error {
	if *o.format != output.Human {
		return output.Print(o.factory.Streams.Out, *o.format, d)
	}
	at := d.Commit[:12]
	made := ""
	if d.NewBranch && d.Branch != v1alpha1.DefaultBranch {
		made = ", a new branch,"
	}
	sentence := fmt.Sprintf("%s@%s%s is at %s: %d added, %d changed, %d removed; %s given, %s stored", d.Dataset, d.Branch, made, at,
		d.Added, d.Changed, d.Removed, terminal.Size64(d.SeenBytes), terminal.Size64(d.StoredBytes))
	switch {
	case d.Unchanged && d.Open:
		sentence = fmt.Sprintf("nothing has changed: the open commit of %s@%s is at %s", d.Dataset, d.Branch, at)
	case d.Open:
		sentence = fmt.Sprintf("the open commit of %s@%s is at %s: %d added, %d changed, %d removed; %s given, %s stored; muster data close makes it one of the branch",
			d.Dataset, d.Branch, at, d.Added, d.Changed, d.Removed, terminal.Size64(d.SeenBytes), terminal.Size64(d.StoredBytes))
	case d.Unchanged:
		sentence = fmt.Sprintf("nothing has changed: %s@%s is at %s", d.Dataset, d.Branch, at)
	}
	if d.Open && o.message != "" {
		sentence += " (what -m says is not kept: say it to muster data close)"
	}
	_, err := fmt.Fprintln(o.factory.Streams.Out, sentence)
	return err
}
