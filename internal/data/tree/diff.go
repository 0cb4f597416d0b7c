package tree

import (
	"context"
	"iter"
	"strings"
)

// Change is one path at which two trees differ. From is nil where it is new, To
// where it is gone; both are only to be read.
type Change struct {
	Path     string
	From, To *Entry
}

// Diff is what differs between two trees, in the order of paths. It reads the
// nodes that differ, and those above them.
func (t *Tree) Diff(ctx context.Context, from, to Root) iter.Seq2[Change, error] {
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
		t.diff(ctx, a, b, yield)
	}
}

func (t *Tree) diff(ctx context.Context, a, b *cursor, yield func(Change, error) bool) {
	for a.valid() || b.valid() {
		if a.past() && b.past() {
			return
		}
		if a.valid() && b.valid() && a.sameRef(b) {
			a.next()
			b.next()
			continue
		}
		if a.valid() && a.level() > 0 || b.valid() && b.level() > 0 {
			if err := t.closer(ctx, a, b); err != nil {
				yield(Change{}, err)
				return
			}
			continue
		}
		if c, differs := compare(a, b); differs && !yield(c, nil) {
			return
		}
	}
}

// closer takes the cursor that is at the higher level down, both where they are
// level: what differs may be anywhere below.
func (t *Tree) closer(ctx context.Context, a, b *cursor) error {
	la, lb := a.level(), b.level()
	if la >= lb {
		if err := a.down(ctx, t); err != nil {
			return err
		}
	}
	if lb >= la {
		return b.down(ctx, t)
	}
	return nil
}

// compare takes the entry that comes first, or both where they are at one path.
func compare(a, b *cursor) (Change, bool) {
	switch {
	case !b.valid() || a.valid() && a.entry().Path < b.entry().Path:
		e := a.entry()
		a.next()
		return Change{Path: e.Path, From: e}, true
	case !a.valid() || b.entry().Path < a.entry().Path:
		e := b.entry()
		b.next()
		return Change{Path: e.Path, To: e}, true
	}
	x, y := a.entry(), b.entry()
	a.next()
	b.next()
	return Change{Path: x.Path, From: x, To: y}, !x.Same(y)
}

// cursor is at an item of a tree: an entry or, above, a ref to a whole node.
type cursor struct {
	path []position
	// prefix, if given, is what the paths begin with that are of interest; behind
	// is the last key of what was left behind.
	prefix, behind string
}

type position struct {
	node *Node
	i    int
	// before is the last key before the node.
	before string
}

func (t *Tree) newCursor(ctx context.Context, root Root) (*cursor, error) {
	n, err := t.Top(ctx, root)
	if err != nil || n == nil {
		return &cursor{}, err
	}
	return &cursor{path: []position{{node: n}}}, nil
}

func (c *cursor) valid() bool { return len(c.path) > 0 }

func (c *cursor) at() *position { return &c.path[len(c.path)-1] }

// level is that of the node that the item is in; -1 at the end.
func (c *cursor) level() int {
	if !c.valid() {
		return -1
	}
	return c.at().node.Level
}

func (c *cursor) entry() *Entry { p := c.at(); return &p.node.Entries[p.i] }

func (c *cursor) ref() *Ref { p := c.at(); return &p.node.Refs[p.i] }

func (c *cursor) sameRef(o *cursor) bool {
	return c.level() > 0 && o.level() > 0 && c.ref().ID == o.ref().ID
}

// next goes to the item behind this one, at the level above where a node ends.
func (c *cursor) next() {
	for c.valid() {
		p := c.at()
		if c.prefix != "" {
			c.behind = p.node.Key(p.i)
		}
		if p.i++; p.i < p.node.Len() {
			return
		}
		c.path = c.path[:len(c.path)-1]
	}
}

// down goes to the first item of the node that the item is.
func (c *cursor) down(ctx context.Context, t *Tree) error {
	above := c.at()
	before := above.node.before(above.i, above.before)
	n, err := t.Load(ctx, c.ref(), c.level()-1, before)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	p := position{node: n, before: before}
	if c.prefix != "" {
		p.i = n.search(c.prefix) // there is one: the ref's last key is not before it
	}
	c.path = append(c.path, p)
	return nil
}

// seek takes a cursor that is at a tree's first item to the first that may have
// paths with a prefix.
func (c *cursor) seek(prefix string) {
	if !c.valid() {
		return
	}
	c.prefix = prefix
	p := c.at()
	if p.i = p.node.search(prefix); p.i == p.node.Len() {
		c.path = nil
	}
}

// past says that nothing with the prefix can follow.
func (c *cursor) past() bool {
	if !c.valid() {
		return true
	}
	return c.prefix != "" && c.behind > c.prefix && !strings.HasPrefix(c.behind, c.prefix)
}
