package tree

import (
	"context"
	"iter"
	"strings"
)

// DiffBelow is what differs between two trees at paths that begin with a prefix,
// in the order of paths. It reads the nodes that differ and have such paths, and
// those above them: what differs elsewhere costs nothing.
func (t *Tree) DiffBelow(ctx context.Context, from, to Root, prefix string) iter.Seq2[Change, error] {
	if prefix == "" {
		return t.Diff(ctx, from, to)
	}
	return func(yield func(Change, error) bool) {
		if from.ID == to.ID {
			return
		}
		a, err := t.newCursor(ctx, from)
		if err != nil {
			yield(Change{}, err)
			return
		}
		b, err := t.newCursor(ctx, to)
		if err != nil {
			yield(Change{}, err)
			return
		}
		a.seek(prefix)
		b.seek(prefix)
		t.diff(ctx, a, b, func(c Change, err error) bool {
			if err == nil && !strings.HasPrefix(c.Path, prefix) {
				return c.Path < prefix
			}
			return yield(c, err)
		})
	}
}
