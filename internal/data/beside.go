package data

import (
	"context"
	"errors"
	"fmt"

	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/data/tree"
)

// Beside commits to a branch of another dataset of the store what the session has
// made, before it commits to its own: what it has built so far is stored once for
// both. build makes the tree of what the branch is at, zero where it is not there,
// and is asked again where the branch moves meanwhile. When Beside returns nil, the
// commit is durable and everybody sees it, whatever becomes of the session.
func (s *Session) Beside(ctx context.Context, d *Dataset, branch string, o CommitOptions, build func(context.Context, commit.Commit) (tree.Root, error)) (commit.Commit, error) {
	if err := s.usable(); err != nil {
		return commit.Commit{}, err
	}
	name := ref.Name{Kind: ref.Branch, Name: branch}
	for {
		on, err := s.pinned(ctx, d, name)
		if err != nil {
			return commit.Commit{}, s.fail(err)
		}
		root, err := build(ctx, on)
		if err != nil {
			return commit.Commit{}, s.fail(err)
		}
		if root.ID == on.Tree.ID && !on.ID.IsZero() && !o.AllowEmpty && len(o.Parents) == 0 {
			return on, nil
		}
		c, err := s.place(ctx, d, name, on, root, o)
		if _, moved := errors.AsType[*ref.MovedError](err); moved {
			continue
		}
		if err != nil {
			return commit.Commit{}, s.fail(fmt.Errorf("committing to %s: %w", name, err))
		}
		return c, nil
	}
}

// pinned is the commit that a branch of another dataset is at, zero where there is
// none; the session's lease keeps it.
func (s *Session) pinned(ctx context.Context, d *Dataset, name ref.Name) (commit.Commit, error) {
	on, err := d.branch(ctx, name)
	for err == nil && !on.ID.IsZero() {
		if err = s.lease.add(ctx, on.ID); err != nil {
			break
		}
		var now commit.Commit
		if now, err = d.branch(ctx, name); err != nil || now.ID == on.ID {
			break
		}
		on = now // it went elsewhere before the lease was there
	}
	return on, err
}

// place makes everything durable, then a commit of a tree, and then moves a branch to
// it from the commit that it is thought to be at, under further conditions.
func (s *Session) place(ctx context.Context, d *Dataset, name ref.Name, on commit.Commit, root tree.Root, o CommitOptions, conditions ...ref.Move) (commit.Commit, error) {
	c := commit.Commit{Tree: root, Author: o.Author, Message: o.Message, Provenance: o.Provenance}
	switch {
	case name.Kind == ref.Open:
		c.Parents = append(c.Parents, on.Parents...) // in place of what was open
	case !on.ID.IsZero() && !o.Orphan:
		c.Parents = append(c.Parents, on.ID)
	}
	c.Parents = append(c.Parents, o.Parents...)
	if err := s.write(ctx, &c, on.Tree); err != nil {
		return commit.Commit{}, err
	}
	if err := s.swap(ctx, d, append([]ref.Move{name.Move(on.ID, c.ID)}, conditions...)...); err != nil {
		return commit.Commit{}, err
	}
	return c, nil
}

// write makes a commit durable, with all that it has: its tree is by changes to one in
// which nothing is a file and a folder at once.
func (s *Session) write(ctx context.Context, c *commit.Commit, on tree.Root) error {
	if err := checkShape(ctx, s.trees, on, c.Tree); err != nil {
		return err
	}
	c.Time = s.store.clock()
	return commit.Write(ctx, s.store.backend, c, s.writer.flush)
}

// swap moves heads while all leases of the session stand.
func (s *Session) swap(ctx context.Context, d *Dataset, moves ...ref.Move) error {
	return swap(ctx, append([]*Lease{s.lease}, s.pins...), d.heads, moves...)
}
