package opening

import (
	"context"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
)

// Changes count the files by which two commits differ.
type Changes struct{ Added, Changed, Removed int64 }

// Changes are those from one commit to another. A zero before: from nothing.
func (d *Dataset) Changes(ctx context.Context, before, after digest.ID) (Changes, error) {
	var counted Changes
	var from *data.View
	if !before.IsZero() {
		var err error
		if from, err = d.At(ctx, before.String()); err != nil {
			return counted, err
		}
	}
	to, err := d.At(ctx, after.String())
	if err != nil {
		return counted, err
	}
	err = data.Diff(ctx, from, to, func(c data.Change) error {
		switch {
		case c.From == nil:
			counted.Added++
		case c.To == nil:
			counted.Removed++
		default:
			counted.Changed++
		}
		return nil
	})
	return counted, err
}
