package tree

import (
	"context"
	"fmt"
	"io/fs"
	"iter"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
)

// Tree reads trees. It may be used by many at once.
type Tree struct {
	blobs Loader
	cache *Cache
}

// New reads trees out of blobs. The cache may be nil.
func New(blobs Loader, cache *Cache) *Tree { return &Tree{blobs: blobs, cache: cache} }

// Top is the topmost node of a tree, nil for the empty one. Its error wraps
// [pack.ErrDamaged] if the tree has not as much as its root claims.
func (t *Tree) Top(ctx context.Context, root Root) (*Node, error) {
	if root.ID.IsZero() {
		return nil, nil
	}
	n, err := t.load(ctx, root.ID, root.Place)
	if err != nil {
		return nil, err
	}
	return n, n.claimed(root.ID, root.Files, root.Bytes)
}

// Node is one node, whose place in a tree is not known: what it claims of the nodes below is
// not checked.
func (t *Tree) Node(ctx context.Context, id digest.ID, at pack.Place) (*Node, error) {
	return t.load(ctx, id, at)
}

// Load is the node that a ref names, which has to be of the level below, to have as much as the
// ref claims, and to begin behind the last key before it. So a walk shows at most what the root
// claims, each path once, whoever stored the nodes.
func (t *Tree) Load(ctx context.Context, r *Ref, level int, before string) (*Node, error) {
	n, err := t.load(ctx, r.ID, r.Place)
	if err != nil {
		return nil, err
	}
	if n.Level != level || n.Key(n.Len()-1) != r.Last || n.Key(0) <= before {
		return nil, fmt.Errorf("node %s at %s is not the one that is meant: %w", r.ID.Short(), r.Place, pack.ErrDamaged)
	}
	return n, n.claimed(r.ID, r.Files, r.Bytes)
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
			var folders nesting
			t.walk(ctx, n, path, "", folders.checked(yield))
		}
	}
}

// walk shows a node from a path on, and says whether to go on. All its keys are behind before.
func (t *Tree) walk(ctx context.Context, n *Node, path, before string, yield func(*Entry, error) bool) bool {
	for i := n.search(path); i < n.Len(); i++ {
		if n.Level == 0 {
			if !yield(&n.Entries[i], nil) {
				return false
			}
			continue
		}
		child, err := t.Load(ctx, &n.Refs[i], n.Level-1, n.before(i, before))
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			yield(nil, err)
			return false
		}
		if !t.walk(ctx, child, path, n.before(i, before), yield) {
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
	for last := ""; ; {
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
		last = n.before(end, last)
		if n, err = t.Load(ctx, &n.Refs[end], n.Level-1, last); err != nil {
			return 0, 0, err
		}
	}
}
