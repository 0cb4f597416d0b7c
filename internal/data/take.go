package data

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
)

// Trees reads the trees of the store's commits.
func (s *Store) Trees() *tree.Tree { return s.trees }

// Trees reads the trees of commits, and those that the session makes.
func (s *Session) Trees() *tree.Tree { return s.trees }

// Take keeps commits of this store as long as the session lives, so that what they
// hold may be given to [Session.Set] and [Session.Build].
func (s *Session) Take(ctx context.Context, ids ...digest.ID) error {
	if err := s.usable(); err != nil {
		return err
	}
	if err := s.lease.add(ctx, ids...); err != nil {
		return s.fail(err)
	}
	condemned, err := s.store.condemned(ctx)
	if err != nil {
		return s.fail(err)
	}
	for _, id := range ids {
		if condemned[commit.Key(id)] {
			return s.fail(fmt.Errorf("commit %s is being collected: nothing led to it: %w", id.Short(), fs.ErrNotExist))
		}
		if _, err := s.store.commit(ctx, id); err != nil {
			return s.fail(err)
		}
	}
	return nil
}

// Set sets a path to an entry, or removes it where that is nil. No bytes are
// copied: the entry's content is of this session, of its branch, or of a commit
// that it has taken.
func (s *Session) Set(ctx context.Context, path string, e *Entry) error {
	if err := s.usable(); err != nil {
		return err
	}
	if e != nil {
		moved := *e
		moved.Path = path
		e = &moved
	}
	if err := s.set(ctx, tree.Edit{Path: path, Entry: e}); err != nil {
		return s.fail(err)
	}
	return nil
}

// Root is the tree as the session has it now.
func (s *Session) Root(ctx context.Context) (tree.Root, error) {
	if err := s.usable(); err != nil {
		return tree.Root{}, err
	}
	if err := s.apply(ctx); err != nil {
		return tree.Root{}, s.fail(err)
	}
	return s.root, nil
}

// Become makes a tree of this session, or of a commit that it has taken, what is
// to be committed, in place of everything.
func (s *Session) Become(root tree.Root) error {
	if err := s.usable(); err != nil {
		return err
	}
	s.edits, s.root = s.edits[:0], root
	return nil
}

// Build makes another tree with edits, as [tree.Tree.Apply] does: nothing is
// committed unless the session is to [Session.Become] it.
func (s *Session) Build(ctx context.Context, root tree.Root, edits []tree.Edit) (tree.Root, error) {
	if err := s.usable(); err != nil {
		return tree.Root{}, err
	}
	made, err := s.trees.Apply(ctx, s.writer, root, edits)
	if err != nil {
		return tree.Root{}, s.fail(fmt.Errorf("building a tree: %w", err))
	}
	return made, nil
}
