package data

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/data/tree"
)

// Prefer is whose content counts where both sides changed one path.
type Prefer string

// Whose content counts. Nobody's: such a path is a conflict.
const (
	PreferNobody Prefer = ""
	PreferInto   Prefer = "into"
	PreferFrom   Prefer = "from"
)

// MergeOptions say what is merged.
type MergeOptions struct {
	// Into is the branch that moves, From a reference to what is merged into it.
	Into, From string
	Author     string
	Message    string
	Prefer     Prefer
	// NoFastForward makes a commit even where the branch could just move.
	NoFastForward bool
}

// MergeResult is what came of a merge.
type MergeResult struct {
	// Commit is the commit that the branch is at now.
	Commit commit.Commit
	// Unchanged says that everything was there already, FastForward that the branch
	// just moved.
	Unchanged, FastForward bool
}

// mostConflicts is how many conflicts are told.
const mostConflicts = 100

// ConflictError says that both sides changed some paths differently. Nothing was
// changed.
type ConflictError struct {
	// Paths are the first of them, at most 100.
	Paths []string
	// More is how many there are beside those.
	More int
}

// Error implements error.
func (e *ConflictError) Error() string {
	shown := e.Paths[:min(len(e.Paths), 5)]
	rest := ""
	if n := len(e.Paths) - len(shown) + e.More; n > 0 {
		rest = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("both sides changed %q%s: say whose content counts, or make them equal on one side first", strings.Join(shown, `", "`), rest)
}

// mergeTries is how often a merge begins anew because its branch moved.
const mergeTries = 20

// Merge brings a branch what was changed elsewhere since both were one, path by
// path. It costs what was changed.
func (d *Dataset) Merge(ctx context.Context, o MergeOptions) (MergeResult, error) {
	switch o.Prefer {
	case PreferNobody, PreferInto, PreferFrom:
	default:
		return MergeResult{}, fmt.Errorf("merging: %q is no side: prefer into or from, or neither", o.Prefer)
	}
	for i := 1; ; i++ {
		result, err := d.merge(ctx, o)
		var moved *ref.MovedError
		if errors.As(err, &moved) && i < mergeTries {
			continue
		}
		if err != nil {
			return MergeResult{}, fmt.Errorf("merging %s into %s: %w", o.From, o.Into, err)
		}
		return result, nil
	}
}

func (d *Dataset) merge(ctx context.Context, o MergeOptions) (_ MergeResult, err error) {
	s, err := d.Begin(ctx, o.Into, SessionOptions{})
	if err != nil {
		return MergeResult{}, err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	s.strict = true
	from, err := d.Resolve(ctx, o.From)
	if err != nil {
		return MergeResult{}, err
	}
	if s.base.ID.IsZero() {
		return MergeResult{}, fmt.Errorf("there is no branch %s: create it at %s instead", o.Into, o.From)
	}
	base, common, err := d.store.mergeBase(ctx, s.base, from)
	switch {
	case err != nil:
		return MergeResult{}, err
	case common && base.ID == from.ID:
		return MergeResult{Commit: s.base, Unchanged: true}, nil
	case common && base.ID == s.base.ID && !o.NoFastForward:
		return MergeResult{Commit: from, FastForward: true}, s.forward(ctx, from)
	}
	if err := s.lease.add(ctx, from.ID); err != nil {
		return MergeResult{}, err
	}
	if err := s.mix(ctx, base.Tree, from.Tree, o.Prefer); err != nil {
		return MergeResult{}, err
	}
	result, err := s.Commit(ctx, CommitOptions{Author: o.Author, Message: o.Message, Parents: []digest.ID{from.ID}})
	return MergeResult{Commit: result.Commit}, err
}

// forward moves the session's branch to a commit that follows it, which a head or
// the lease has to keep.
func (s *Session) forward(ctx context.Context, to commit.Commit) error {
	if err := s.lease.add(ctx, to.ID); err != nil {
		return err
	}
	return s.swap(ctx, s.dataset, s.branch.Move(s.base.ID, to.ID))
}

// mergeBase is the latest commit that two have in common, if there is any.
func (s *Store) mergeBase(ctx context.Context, a, b commit.Commit) (base commit.Commit, common bool, err error) {
	behind := map[digest.ID]bool{}
	err = s.history(ctx, []commit.Commit{a}, func(c commit.Commit) error {
		behind[c.ID] = true
		return nil
	})
	if err != nil {
		return commit.Commit{}, false, err
	}
	err = s.history(ctx, []commit.Commit{b}, func(c commit.Commit) error {
		if behind[c.ID] {
			base, common = c, true
			return Stop
		}
		return nil
	})
	return base, common, stopped(err)
}

// mix puts what differs between base and theirs on top of the session's tree.
func (s *Session) mix(ctx context.Context, base, theirs tree.Root, prefer Prefer) error {
	return s.mixFrom(ctx, base, base, theirs, prefer)
}

// mixFrom does what mix does where what differs between base and mixed was put there
// already.
func (s *Session) mixFrom(ctx context.Context, base, mixed, theirs tree.Root, prefer Prefer) error {
	next, stop := iter.Pull2(s.trees.Diff(ctx, base, s.base.Tree))
	defer stop()
	ours, failed, more := next()
	conflicts := &ConflictError{}
	for c, err := range s.trees.Diff(ctx, mixed, theirs) {
		for more && err == nil && failed == nil && ours.Path < c.Path {
			ours, failed, more = next()
		}
		if err := errors.Join(err, failed); err != nil {
			return err
		}
		if more && ours.Path == c.Path && c.To.Same(ours.From) {
			c.To = ours.To // it was theirs when it was mixed, and is what both had before
		} else if more && ours.Path == c.Path && !c.To.Same(ours.To) {
			if prefer == PreferNobody {
				conflicts.add(c.Path)
			}
			if prefer != PreferFrom {
				continue
			}
		}
		if err := s.set(ctx, tree.Edit{Path: c.Path, Entry: c.To}); err != nil {
			return err
		}
	}
	if len(conflicts.Paths) > 0 {
		return conflicts
	}
	return nil
}

func (e *ConflictError) add(path string) {
	if len(e.Paths) < mostConflicts {
		e.Paths = append(e.Paths, path)
		return
	}
	e.More++
}
