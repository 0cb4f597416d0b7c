package tree

import (
	"context"
	"fmt"
)

// change is one change of a tree while it goes up through the levels.
type change struct {
	*Tree
	save Saver
	root Root
	top  *Node
}

// Apply makes a tree with edits, which are in the order of their paths, each path
// once. It costs what the edits touch.
func (t *Tree) Apply(ctx context.Context, save Saver, root Root, edits []Edit) (Root, error) {
	items := make([]item, len(edits))
	for i := range edits {
		items[i] = item{key: edits[i].Path, entry: edits[i].Entry}
		if i > 0 && edits[i-1].Path >= edits[i].Path {
			return Root{}, fmt.Errorf("edits out of order: %q after %q", edits[i].Path, edits[i-1].Path)
		}
		if edits[i].Entry == nil {
			continue
		}
		if edits[i].Entry.Path != edits[i].Path {
			return Root{}, fmt.Errorf("the entry of %q at %q", edits[i].Entry.Path, edits[i].Path)
		}
		if err := edits[i].Entry.Check(); err != nil {
			return Root{}, err
		}
	}
	top, err := t.Top(ctx, root)
	if err != nil {
		return Root{}, err
	}
	c := &change{Tree: t, save: save, root: root, top: top}
	if top == nil {
		refs, err := c.leaves(ctx, items)
		if err != nil {
			return Root{}, err
		}
		return c.grow(ctx, 1, refs)
	}
	for level := 0; len(items) > 0; level++ {
		old, made, err := c.level(ctx, level, items)
		if err != nil {
			return Root{}, err
		}
		items = differences(old, made)
		if level == top.Level && len(items) > 0 {
			// Nothing is above that would have the nodes that stay: all of them count.
			return c.grow(ctx, level+1, made)
		}
	}
	return root, nil
}

// level applies items to the nodes of one level: those that were touched, and what
// they are now.
func (c *change) level(ctx context.Context, level int, items []item) (old, made []Ref, err error) {
	b := newBuilder(c.save, c.cache, level)
	defer b.wait()
	for len(items) > 0 {
		n, ref, last, err := c.find(ctx, level, items[0].key, (*Node).search)
		if err != nil {
			return nil, nil, err
		}
		for {
			old = append(old, ref)
			if items, err = merge(ctx, b, n, items, last); err != nil {
				return nil, nil, err
			}
			// Where a new node ends with an old one, what follows stays as it is.
			if b.empty() || last {
				break
			}
			if n, ref, last, err = c.find(ctx, level, ref.Last, (*Node).after); err != nil {
				return nil, nil, err
			}
		}
		if err := b.finish(ctx); err != nil {
			return nil, nil, err
		}
	}
	made, err = b.end(ctx)
	return old, made, err
}

// find is a node of a level: the one that a key belongs to. last says that there
// is none after it.
func (c *change) find(ctx context.Context, level int, key string, pick func(*Node, string) int) (n *Node, ref Ref, last bool, err error) {
	n, last = c.top, true
	ref = Ref{Last: n.Key(n.Len() - 1), ID: c.root.ID, Place: c.root.Place}
	for before := ""; n.Level > level; {
		i := min(pick(n, key), n.Len()-1)
		before = n.before(i, before)
		last = last && i == n.Len()-1
		ref = n.Refs[i]
		if n, err = c.Load(ctx, &ref, n.Level-1, before); err != nil {
			return nil, Ref{}, false, err
		}
	}
	return n, ref, last, nil
}

// merge adds a node's items to the builder with those that change them, and
// returns the items that belong behind it.
func merge(ctx context.Context, b *builder, n *Node, items []item, last bool) ([]item, error) {
	end := n.Key(n.Len() - 1)
	for i := 0; i < n.Len() || len(items) > 0 && (last || items[0].key <= end); {
		switch {
		case len(items) == 0 || i < n.Len() && n.Key(i) < items[0].key:
			// What stays as it is: found by halves, for mostly it is much.
			stay := n.Len()
			if len(items) > 0 {
				stay = n.search(items[0].key)
			}
			for ; i < stay; i++ {
				if err := b.add(ctx, n.item(i)); err != nil {
					return nil, err
				}
			}
			continue
		case i < n.Len() && n.Key(i) == items[0].key:
			i++
		}
		if !items[0].removes() {
			if err := b.add(ctx, &items[0]); err != nil {
				return nil, err
			}
		}
		items = items[1:]
	}
	return items, nil
}

func (n *Node) item(i int) *item {
	if n.Level > 0 {
		return &item{key: n.Refs[i].Last, ref: &n.Refs[i]}
	}
	return &item{key: n.Entries[i].Path, entry: &n.Entries[i]}
}

// differences is what turns old refs into new ones, in the level above. Both are in
// order.
func differences(old, made []Ref) []item {
	var items []item
	for len(old) > 0 || len(made) > 0 {
		switch {
		case len(made) == 0 || len(old) > 0 && old[0].Last < made[0].Last:
			items = append(items, item{key: old[0].Last})
			old = old[1:]
			continue
		case len(old) > 0 && old[0].Last == made[0].Last:
			if old[0].ID != made[0].ID {
				items = append(items, item{key: made[0].Last, ref: &made[0]})
			}
			old = old[1:]
		default:
			items = append(items, item{key: made[0].Last, ref: &made[0]})
		}
		made = made[1:]
	}
	return items
}

// grow builds levels above refs until one node is left, and takes away those that
// have only one below.
func (c *change) grow(ctx context.Context, level int, refs []Ref) (Root, error) {
	for ; len(refs) > 1; level++ {
		var err error
		if refs, err = c.above(ctx, level, refs); err != nil {
			return Root{}, err
		}
	}
	if len(refs) == 0 {
		return Root{}, nil
	}
	return c.lower(ctx, refs[0])
}

// above builds the level above refs.
func (c *change) above(ctx context.Context, level int, refs []Ref) ([]Ref, error) {
	b := newBuilder(c.save, c.cache, level)
	defer b.wait()
	for i := range refs {
		if err := b.add(ctx, &item{key: refs[i].Last, ref: &refs[i]}); err != nil {
			return nil, err
		}
	}
	return b.end(ctx)
}

// leaves builds the lowest level of a tree that was empty.
func (c *change) leaves(ctx context.Context, items []item) ([]Ref, error) {
	b := newBuilder(c.save, c.cache, 0)
	defer b.wait()
	for i := range items {
		if items[i].removes() {
			continue
		}
		if err := b.add(ctx, &items[i]); err != nil {
			return nil, err
		}
	}
	return b.end(ctx)
}

// lower is the root of a tree with one topmost node: the lowest that has it all.
func (c *change) lower(ctx context.Context, r Ref) (Root, error) {
	for {
		n, err := c.load(ctx, r.ID, r.Place)
		if err != nil {
			return Root{}, err
		}
		if n.Level == 0 || len(n.Refs) > 1 {
			return Root{ID: r.ID, Place: r.Place, Files: r.Files, Bytes: r.Bytes}, nil
		}
		r = n.Refs[0]
	}
}
