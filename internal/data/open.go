package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
)

// OpenCommit opens a commit of a branch, which need not be there yet: changes that go to it
// ([SessionOptions]) are durable, each of them, and nobody sees them in the branch before
// [Dataset.CloseCommit]. One commit of a branch is open at a time; else the error is a
// [ref.MovedError].
func (d *Dataset) OpenCommit(ctx context.Context, branch, author string) (_ commit.Commit, err error) {
	fail := func(err error) (commit.Commit, error) {
		return commit.Commit{}, fmt.Errorf("opening a commit of %s: %w", branch, err)
	}
	s, err := d.Begin(ctx, branch, SessionOptions{})
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	c, err := s.reopened(ctx, s.base, author)
	if err != nil {
		return fail(err)
	}
	if err := s.swap(ctx, d, ref.Name{Kind: ref.Open, Name: branch}, digest.ID{}, c.ID); err != nil {
		return fail(err)
	}
	return c, nil
}

// reopened is an open commit to which nothing was put since another one. That one is before
// it, as it is before all that take its place: what came since is known by that.
func (s *Session) reopened(ctx context.Context, on commit.Commit, author string) (commit.Commit, error) {
	c := commit.Commit{Tree: on.Tree, Author: author, Message: "open"}
	if !on.ID.IsZero() {
		c.Parents = []digest.ID{on.ID}
	}
	return c, s.write(ctx, &c, on.Tree)
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
// path by path on top of where that is. Nothing that was acknowledged is lost where it
// ends at any point, and closing again goes on; whoever writes meanwhile is in the commit,
// or in a later one. The error wraps [fs.ErrNotExist] where no commit is open, and is a
// [ConflictError] where the branch was changed at the same paths; then it stays open.
func (d *Dataset) CloseCommit(ctx context.Context, o CloseOptions) (CloseResult, error) {
	switch o.Prefer {
	case PreferNobody, PreferInto, PreferFrom:
	default:
		return CloseResult{}, fmt.Errorf("closing: %q is no side: prefer into or from, or neither", o.Prefer)
	}
	for {
		result, err := d.closeCommit(ctx, o)
		if _, moved := errors.AsType[*ref.MovedError](err); moved && ctx.Err() == nil {
			continue // somebody wrote to it, or to the branch
		}
		if err != nil {
			return CloseResult{}, fmt.Errorf("closing the commit of %s: %w", o.Branch, err)
		}
		return result, nil
	}
}

// closeCommit tries it once. The open commit becomes one on top of the commit that is to be the
// branch's, then the branch moves there, then nothing is open: at each point it is known
// what of it the branch has.
func (d *Dataset) closeCommit(ctx context.Context, o CloseOptions) (_ CloseResult, err error) {
	s, err := d.Begin(ctx, o.Branch, SessionOptions{})
	if err != nil {
		return CloseResult{}, err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	name := ref.Name{Kind: ref.Open, Name: o.Branch}
	open, err := s.pinned(ctx, d, name)
	if err != nil {
		return CloseResult{}, err
	}
	if open.ID.IsZero() {
		return CloseResult{}, fmt.Errorf("none is open: %w", fs.ErrNotExist)
	}
	if err := s.take(ctx, open, o.Prefer); err != nil {
		return CloseResult{}, err
	}
	result := CloseResult{Commit: s.base, Unchanged: s.root.ID == s.base.Tree.ID}
	if !result.Unchanged {
		if result.Commit, open, err = s.hand(ctx, name, open, o); err != nil {
			return CloseResult{}, err
		}
	}
	return result, s.swap(ctx, d, name, open.ID, digest.ID{})
}

// take puts what came into an open commit on top of the branch.
func (s *Session) take(ctx context.Context, open commit.Commit, prefer Prefer) error {
	var base commit.Commit
	if !s.base.ID.IsZero() {
		var err error
		if base, _, err = s.store.mergeBase(ctx, s.base, open); err != nil {
			return err
		}
	}
	if err := s.mix(ctx, base.Tree, open.Tree, prefer); err != nil {
		return err
	}
	return s.apply(ctx)
}

// hand hands the branch what the session has taken; then it is what was, and what is
// open is on top of that.
func (s *Session) hand(ctx context.Context, name ref.Name, open commit.Commit, o CloseOptions) (closed, reopened commit.Commit, err error) {
	closed = commit.Commit{Tree: s.root, Author: o.Author, Message: o.Message}
	if !s.base.ID.IsZero() {
		closed.Parents = []digest.ID{s.base.ID}
	}
	if err = s.write(ctx, &closed, s.base.Tree); err != nil {
		return closed, reopened, err
	}
	if reopened, err = s.reopened(ctx, closed, o.Author); err != nil {
		return closed, reopened, err
	}
	if err = s.swap(ctx, s.dataset, name, open.ID, reopened.ID); err == nil {
		err = s.swap(ctx, s.dataset, s.branch, s.base.ID, closed.ID)
	}
	return closed, reopened, err
}

// DiscardCommit gives up the open commit of a branch with all that was put into it, and is the
// commit that it was. The error wraps [fs.ErrNotExist] where none is open.
func (d *Dataset) DiscardCommit(ctx context.Context, branch string) (digest.ID, error) {
	name := ref.Name{Kind: ref.Open, Name: branch}
	for {
		at, err := d.heads.Get(ctx, name)
		if err == nil {
			err = d.heads.Swap(ctx, name, at, digest.ID{})
		}
		if _, moved := errors.AsType[*ref.MovedError](err); moved && ctx.Err() == nil {
			continue // somebody wrote to it
		}
		if err != nil {
			return digest.ID{}, fmt.Errorf("discarding the commit of %s: %w", branch, err)
		}
		return at, nil
	}
}
