package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/data/tree"
)

// openTries is how often opening and closing begin anew because somebody writes.
const openTries = 50

// OpenCommit opens a commit of a branch, which need not be there yet: changes that go to it
// ([SessionOptions]) are durable, each of them, and nobody sees them in the branch before
// [Dataset.CloseCommit]. From this moment on no such change goes to the branch. One commit
// of a branch is open at a time; else the error is a [ref.MovedError] of it.
func (d *Dataset) OpenCommit(ctx context.Context, branch, author string) (commit.Commit, error) {
	for i := 1; ; i++ {
		c, err := d.openCommit(ctx, branch, author)
		moved, ok := errors.AsType[*ref.MovedError](err)
		if ok && moved.Name.Kind == ref.Branch && i < openTries && ctx.Err() == nil {
			continue
		}
		if ok && moved.Name.Kind == ref.Branch {
			err = fmt.Errorf("%w, as it did each time: open one when less is written", moved)
		}
		if err != nil {
			return commit.Commit{}, fmt.Errorf("opening a commit of %s: %w", branch, err)
		}
		return c, nil
	}
}

// openCommit tries it once. The open commit has the branch's before it, as all have that
// take its place: by that it is known what came since.
func (d *Dataset) openCommit(ctx context.Context, branch, author string) (_ commit.Commit, err error) {
	s, err := d.Begin(ctx, branch, SessionOptions{})
	if err != nil {
		return commit.Commit{}, err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	c := commit.Commit{Tree: s.root, Author: author, Message: "open"}
	if !s.base.ID.IsZero() {
		c.Parents = []digest.ID{s.base.ID}
	}
	if err := s.write(ctx, &c, s.root); err != nil {
		return commit.Commit{}, err
	}
	open := ref.Name{Kind: ref.Open, Name: branch}
	return c, s.swap(ctx, d, open.Move(digest.ID{}, c.ID), s.branch.Stays(s.base.ID))
}

// CloseOptions say how an open commit is closed.
type CloseOptions struct {
	Branch  string
	Author  string
	Message string
	// Prefer says whose content counts where the branch was changed meanwhile, at the
	// same path: the branch's (into) or what was put into the open commit (from).
	Prefer Prefer
}

// CloseResult is what came of closing a commit.
type CloseResult struct {
	// Commit is the commit that the branch is at now; zero where nothing was put, and the
	// branch is not there.
	Commit commit.Commit
	// Unchanged says that the branch had all of it already: no commit was made.
	Unchanged bool
}

// CloseCommit makes what was put into the open commit of a branch one commit of the branch,
// path by path on top of where that is, in one step: whoever writes meanwhile is in the
// commit, or after it. The error wraps [fs.ErrNotExist] where no commit is open, and is a
// [ConflictError] where the branch was changed at the same paths; then it stays open.
func (d *Dataset) CloseCommit(ctx context.Context, o CloseOptions) (CloseResult, error) {
	switch o.Prefer {
	case PreferNobody, PreferInto, PreferFrom:
	default:
		return CloseResult{}, fmt.Errorf("closing: %q is no side: prefer into or from, or neither", o.Prefer)
	}
	for i := 1; ; i++ {
		result, err := d.closeCommit(ctx, o)
		moved, ok := errors.AsType[*ref.MovedError](err)
		switch {
		case ok && moved.Name.Kind == ref.Branch && i < openTries && ctx.Err() == nil:
			continue
		case ok:
			err = fmt.Errorf("%w, as it did each time: close it when less is written", moved)
		}
		if err != nil {
			return CloseResult{}, fmt.Errorf("closing the commit of %s: %w", o.Branch, err)
		}
		return result, nil
	}
}

// closeCommit tries it on top of where the branch is, as often as only the open commit
// moves meanwhile: then only what was put since is left to be done.
func (d *Dataset) closeCommit(ctx context.Context, o CloseOptions) (_ CloseResult, err error) {
	s, err := d.Begin(ctx, o.Branch, SessionOptions{})
	if err != nil {
		return CloseResult{}, err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	c := &closing{Session: s, o: o, name: ref.Name{Kind: ref.Open, Name: o.Branch}}
	for i := 1; ; i++ {
		result, err := c.try(ctx)
		moved, ok := errors.AsType[*ref.MovedError](err)
		if !ok || moved.Name != c.name || i == openTries || ctx.Err() != nil {
			return result, err
		}
	}
}

// closing is an open commit that is being closed.
type closing struct {
	*Session
	o    CloseOptions
	name ref.Name
	// opened is the commit that it was opened on, as far as it is known, and on its tree;
	// taken is the tree that is in the session already.
	begun     bool
	opened    digest.ID
	on, taken tree.Root
}

// try closes it as it is now. The branch moves and nothing is open any more, both at once.
func (c *closing) try(ctx context.Context) (CloseResult, error) {
	open, err := c.pinned(ctx, c.dataset, c.name)
	if err != nil {
		return CloseResult{}, err
	}
	if open.ID.IsZero() {
		return CloseResult{}, fmt.Errorf("none is open: %w", fs.ErrNotExist)
	}
	sound, err := c.take(ctx, open)
	if err != nil {
		return CloseResult{}, err
	}
	end := c.name.Move(open.ID, digest.ID{})
	if c.root.ID == c.base.Tree.ID {
		return CloseResult{Commit: c.base, Unchanged: true}, c.swap(ctx, c.dataset, end, c.branch.Stays(c.base.ID))
	}
	made := commit.Commit{Tree: c.root, Author: c.o.Author, Message: c.o.Message}
	if !c.base.ID.IsZero() {
		made.Parents = []digest.ID{c.base.ID}
	}
	if err := c.write(ctx, &made, sound); err != nil {
		return CloseResult{}, err
	}
	return CloseResult{Commit: made}, c.swap(ctx, c.dataset, c.branch.Move(c.base.ID, made.ID), end)
}

// take puts on top of the branch what was put into the open commit and was not taken yet.
// It is a tree in which nothing is a file and a folder at once, as near to the session's as
// is known.
func (c *closing) take(ctx context.Context, open commit.Commit) (sound tree.Root, err error) {
	if err := c.begin(ctx, parentOf(open)); err != nil {
		return tree.Root{}, err
	}
	if c.on.ID == c.base.Tree.ID { // the branch has not changed
		c.root = open.Tree
		return open.Tree, nil
	}
	if err := c.mixFrom(ctx, c.on, c.taken, open.Tree, c.o.Prefer); err != nil {
		return tree.Root{}, err
	}
	c.taken = open.Tree
	return c.base.Tree, c.apply(ctx)
}

// begin takes anew what was opened on that commit, unless it has begun to.
func (c *closing) begin(ctx context.Context, opened digest.ID) error {
	if c.begun && opened == c.opened {
		return nil
	}
	var on tree.Root
	if !opened.IsZero() {
		before, err := c.store.commit(ctx, opened)
		if err != nil {
			return err
		}
		on = before.Tree
	}
	c.begun, c.opened, c.on, c.taken = true, opened, on, on
	c.edits, c.root = c.edits[:0], c.base.Tree
	return nil
}

// parentOf is the commit that an open one was opened on; zero: none.
func parentOf(open commit.Commit) digest.ID {
	if len(open.Parents) == 0 {
		return digest.ID{}
	}
	return open.Parents[0]
}

// DiscardCommit gives up the open commit of a branch with all that was put into it, and is the
// commit that it was. The error wraps [fs.ErrNotExist] where none is open.
func (d *Dataset) DiscardCommit(ctx context.Context, branch string) (digest.ID, error) {
	name := ref.Name{Kind: ref.Open, Name: branch}
	for i := 1; ; i++ {
		at, err := d.heads.Get(ctx, name)
		if err == nil {
			err = d.heads.Swap(ctx, name.Move(at, digest.ID{}))
		}
		if _, moved := errors.AsType[*ref.MovedError](err); moved && i < openTries && ctx.Err() == nil {
			continue // somebody wrote to it
		}
		if err != nil {
			return digest.ID{}, fmt.Errorf("discarding the commit of %s: %w", branch, err)
		}
		return at, nil
	}
}
