package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/glob"
	"github.com/muster-dev/muster/internal/data/tree"
)

// Entry is one file, symbolic link or folder; see [tree.Entry].
type Entry = tree.Entry

// Change is one path at which two commits differ; see [tree.Change].
type Change = tree.Change

// Stop is what a callback returns that has seen enough: it ends what it was called
// by without an error.
var Stop error = stop{}

type stop struct{}

// Error implements error.
func (stop) Error() string { return "enough" }

// stopped makes Stop no error.
func stopped(err error) error {
	if errors.Is(err, Stop) {
		return nil
	}
	return err
}

// View is what one commit holds. It may be used by many at once, and needs no
// closing.
type View struct {
	store  *Store
	commit commit.Commit
}

// Commit is the commit.
func (v *View) Commit() commit.Commit { return v.commit }

// Parent is what the commit before holds, the first of several. The error wraps
// [fs.ErrNotExist] where there is none.
func (v *View) Parent(ctx context.Context) (*View, error) {
	if len(v.commit.Parents) == 0 {
		return nil, fmt.Errorf("there is no commit before %s: %w", v.commit.ID.Short(), fs.ErrNotExist)
	}
	c, err := v.store.commit(ctx, v.commit.Parents[0])
	if err != nil {
		return nil, err
	}
	return &View{store: v.store, commit: c}, nil
}

// clean is a path as trees have it.
func clean(path string) (string, error) {
	path = strings.Trim(path, "/")
	if path == "" {
		return "", nil
	}
	return path, tree.CheckPath(path)
}

// Stat is what is at a path; a folder where something is below it. The error wraps
// [fs.ErrNotExist] where there is nothing.
func (v *View) Stat(ctx context.Context, path string) (Entry, error) {
	e, err := v.Find(ctx, path)
	if err == nil && e.Kind == tree.Folder {
		return v.folder(ctx, e.Path)
	}
	return e, err
}

// Find is as [View.Stat], but for what a folder has below it: nobody counts that.
func (v *View) Find(ctx context.Context, path string) (Entry, error) {
	path, err := clean(path)
	if path == "" || err != nil {
		return Entry{Kind: tree.Folder}, err
	}
	e, err := v.store.trees.Get(ctx, v.commit.Tree, path)
	if !errors.Is(err, fs.ErrNotExist) {
		return e, err
	}
	from, to := below(path)
	for e, err := range v.store.trees.From(ctx, v.commit.Tree, from) {
		if err != nil {
			return Entry{}, err
		}
		if e.Path < to {
			return Entry{Path: path, Kind: tree.Folder}, nil
		}
		break
	}
	return Entry{}, fmt.Errorf("%q is not in commit %s: %w", path, v.commit.ID.Short(), fs.ErrNotExist)
}

// folder is a folder with its totals.
func (v *View) folder(ctx context.Context, path string) (Entry, error) {
	from, to := below(path)
	files, bytes, err := v.store.trees.Sum(ctx, v.commit.Tree, from, to)
	return Entry{Path: path, Kind: tree.Folder, Files: files, Size: bytes}, err
}

// below is the range of paths below a folder.
func below(folder string) (from, to string) {
	if folder == "" {
		return "", ""
	}
	return folder + "/", folder + "0" // the character after the slash
}

// List shows what is directly in a folder, in order, folders with their totals. The
// error wraps [fs.ErrNotExist] where there is no such folder. It costs what is
// shown, not what is below.
func (v *View) List(ctx context.Context, folder string, see func(Entry) error) error {
	folder, err := clean(folder)
	if err != nil {
		return err
	}
	from, to := below(folder)
	found := folder == ""
	for at := from; ; {
		next, err := v.step(ctx, at, from, to)
		if err != nil {
			return err
		}
		if next.Path == "" {
			break
		}
		found = true
		if err := see(next); err != nil {
			return stopped(err)
		}
		if at = next.Path + "\x00"; next.Kind == tree.Folder {
			_, at = below(next.Path)
		}
	}
	if !found {
		return fmt.Errorf("folder %q is not in commit %s: %w", folder, v.commit.ID.Short(), fs.ErrNotExist)
	}
	return nil
}

// step is what comes first in a folder from a path on; without a path: nothing.
func (v *View) step(ctx context.Context, at, from, to string) (Entry, error) {
	for e, err := range v.store.trees.From(ctx, v.commit.Tree, at) {
		if err != nil {
			return Entry{}, err
		}
		if to != "" && e.Path >= to {
			break
		}
		if cut := strings.IndexByte(e.Path[len(from):], '/'); cut >= 0 {
			return v.folder(ctx, e.Path[:len(from)+cut])
		}
		return *e, nil
	}
	return Entry{}, nil
}

// Walk shows every entry that a pattern matches, in the order of paths: all where
// it is empty, a path with what is below it, or a glob with *, ?, [a-z] and **.
func (v *View) Walk(ctx context.Context, pattern string, see func(Entry) error) error {
	match, err := glob.Compile(pattern)
	if err != nil {
		return err
	}
	for e, err := range match.Entries(ctx, v.store.trees, v.commit.Tree) {
		if err != nil {
			return err
		}
		if err := see(*e); err != nil {
			return stopped(err)
		}
	}
	return nil
}

// Usage is how much there is.
type Usage struct{ Files, Bytes int64 }

// Usage is how much is at a path and below. It costs nothing to speak of.
func (v *View) Usage(ctx context.Context, path string) (Usage, error) {
	e, err := v.Stat(ctx, path)
	if err != nil {
		return Usage{}, err
	}
	if e.Kind != tree.Folder {
		e.Files = 1
	}
	return Usage{Files: e.Files, Bytes: e.Size}, nil
}

// Diff shows what differs between two commits of one store, in the order of paths,
// at the cost of what differs. A nil one has nothing.
func Diff(ctx context.Context, from, to *View, see func(Change) error) error {
	var a, b tree.Root
	var store *Store
	if from != nil {
		a, store = from.commit.Tree, from.store
	}
	if to != nil {
		b, store = to.commit.Tree, to.store
	}
	if store == nil {
		return nil
	}
	if from != nil && to != nil && from.store != to.store {
		return errors.New("comparing two commits: they are in different stores: open both in one")
	}
	for c, err := range store.trees.Diff(ctx, a, b) {
		if err != nil {
			return err
		}
		if err := see(c); err != nil {
			return stopped(err)
		}
	}
	return nil
}
