package tree

import (
	"context"
	"iter"
	"strings"
	"sync"
)

// Ahead is all entries whose paths begin with a prefix, in order, for who goes
// through all of them: so many leaves are read at once, before their turn has come.
// Entries are only to be read.
func (t *Tree) Ahead(ctx context.Context, root Root, prefix string, width int) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		n, err := t.Top(ctx, root)
		if err != nil {
			yield(nil, err)
			return
		}
		if n == nil {
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		var folders nesting
		a := &ahead{tree: t, prefix: prefix, width: max(width, 1), yield: folders.checked(yield)}
		defer a.readers.Wait()
		defer cancel()
		a.walk(ctx, n, "")
	}
}

// ahead is one walk.
type ahead struct {
	tree    *Tree
	prefix  string
	width   int
	yield   func(*Entry, error) bool
	readers sync.WaitGroup
}

// loaded is a node that was read before its turn.
type loaded struct {
	node *Node
	err  error
}

// walk shows what a node has, and says whether to go on. All its keys are behind before.
func (a *ahead) walk(ctx context.Context, n *Node, before string) bool {
	first := n.search(a.prefix)
	if n.Level == 0 {
		for i := first; i < n.Len(); i++ {
			if !strings.HasPrefix(n.Entries[i].Path, a.prefix) || !a.yield(&n.Entries[i], nil) {
				return false
			}
		}
		return true
	}
	width := a.width
	if n.Level > 1 {
		width = 1 // inner nodes are few
	}
	last := a.last(n, first)
	coming := make([]chan loaded, 0, width)
	for i, next := first, first; i <= last; i++ {
		for ; next <= last && next < i+width; next++ {
			coming = append(coming, a.read(ctx, &n.Refs[next], n.Level-1, n.before(next, before)))
		}
		child := <-coming[0]
		coming = coming[1:]
		if child.err == nil {
			child.err = ctx.Err()
		}
		if child.err != nil {
			a.yield(nil, child.err)
			return false
		}
		if !a.walk(ctx, child.node, n.before(i, before)) {
			return false
		}
	}
	return true
}

// last is the last child of a node in which something may begin with the prefix.
func (a *ahead) last(n *Node, first int) int {
	for i := first; i < n.Len(); i++ {
		if key := n.Refs[i].Last; key >= a.prefix && !strings.HasPrefix(key, a.prefix) {
			return i
		}
	}
	return n.Len() - 1
}

// read reads a node beside the walk, which waits for it in the end.
func (a *ahead) read(ctx context.Context, r *Ref, level int, before string) chan loaded {
	out := make(chan loaded, 1)
	a.readers.Go(func() {
		node, err := a.tree.Load(ctx, r, level, before)
		out <- loaded{node, err}
	})
	return out
}
