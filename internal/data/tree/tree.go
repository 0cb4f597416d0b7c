package tree

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
)

// Tree reads trees. It may be used by many at once.
type Tree struct {
	blobs Loader
	cache *Cache
}

// New reads trees out of blobs. The cache may be nil.
func New(blobs Loader, cache *Cache) *Tree { return &Tree{blobs: blobs, cache: cache} }

// Top is the topmost node of a tree, nil for the empty one.
func (t *Tree) Top(ctx context.Context, root Root) (*Node, error) {
	if root.ID.IsZero() {
		return nil, nil
	}
	return t.load(ctx, root.ID, root.Place)
}

// Load is the node that a ref names, which has to be of the level below.
func (t *Tree) Load(ctx context.Context, r *Ref, level int) (*Node, error) {
	n, err := t.load(ctx, r.ID, r.Place)
	if err != nil {
		return nil, err
	}
	if n.Level != level || n.Key(n.Len()-1) != r.Last {
		return nil, fmt.Errorf("node %s at %s is not the one that is meant", r.ID.Short(), r.Place)
	}
	return n, nil
}

// Get is the entry at a path. The error wraps [fs.ErrNotExist] where there is
// none.
func (t *Tree) Get(ctx context.Context, root Root, path string) (Entry, error) {
	for e, err := range t.From(ctx, root, path) {
		if err != nil {
			return Entry{}, err
		}
		if e.Path == path {
			return *e, nil
		}
		break
	}
	return Entry{}, fmt.Errorf("%q: %w", path, fs.ErrNotExist)
}

// From is all entries from a path on, in order. They are only to be read.
func (t *Tree) From(ctx context.Context, root Root, path string) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		n, err := t.Top(ctx, root)
		if err != nil {
			yield(nil, err)
		} else if n != nil {
			t.walk(ctx, n, path, yield)
		}
	}
}

// walk shows a node from a path on, and says whether to go on.
func (t *Tree) walk(ctx context.Context, n *Node, path string, yield func(*Entry, error) bool) bool {
	for i := n.search(path); i < n.Len(); i++ {
		if n.Level == 0 {
			if !yield(&n.Entries[i], nil) {
				return false
			}
			continue
		}
		child, err := t.Load(ctx, &n.Refs[i], n.Level-1)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			yield(nil, err)
			return false
		}
		if !t.walk(ctx, child, path, yield) {
			return false
		}
	}
	return true
}

// Sum is how many entries and bytes there are from one path up to, not with,
// another; an empty end is the end of the tree. It reads nodes at the two ends
// alone.
func (t *Tree) Sum(ctx context.Context, root Root, from, to string) (files, bytes int64, err error) {
	n, err := t.Top(ctx, root)
	if err != nil || n == nil {
		return 0, 0, err
	}
	if to == "" && from == "" {
		return root.Files, root.Bytes, nil
	}
	files, bytes, err = t.before(ctx, n, from)
	if err != nil {
		return 0, 0, err
	}
	upTo, bytesUpTo := root.Files, root.Bytes
	if to != "" {
		if upTo, bytesUpTo, err = t.before(ctx, n, to); err != nil {
			return 0, 0, err
		}
	}
	return upTo - files, bytesUpTo - bytes, nil
}

// before is how much a node has before a path.
func (t *Tree) before(ctx context.Context, n *Node, path string) (files, bytes int64, err error) {
	for {
		end := n.search(path)
		if n.Level == 0 {
			for i := range n.Entries[:end] {
				files++
				bytes += n.Entries[i].Size
			}
			return files, bytes, nil
		}
		for i := range n.Refs[:end] {
			files += n.Refs[i].Files
			bytes += n.Refs[i].Bytes
		}
		if end == len(n.Refs) {
			return files, bytes, nil
		}
		if n, err = t.Load(ctx, &n.Refs[end], n.Level-1); err != nil {
			return 0, 0, err
		}
	}
}
