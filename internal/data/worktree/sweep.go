package worktree

import (
	"cmp"
	"context"
	"io/fs"
	"slices"
)

// Sweep removes every file that keep does not return, and the folders that are empty then. keep
// returns the paths that stay, in order, and the empty path at their end.
func (w *Worktree) Sweep(ctx context.Context, keep func() (string, error)) (removed int64, err error) {
	s := &sweep{worktree: w, keep: keep}
	if err := s.advance(); err != nil {
		return 0, err
	}
	_, err = s.folder(ctx, "")
	return s.removed, err
}

// sweep goes through the folder and through what stays, side by side.
type sweep struct {
	worktree *Worktree
	keep     func() (string, error)
	next     string // the next path that stays; empty at the end
	removed  int64
}

func (s *sweep) advance() (err error) {
	s.next, err = s.keep()
	return err
}

// name is a name in a folder, and the key by which it is in the order of paths: a folder comes where
// its name with a slash does.
type name struct {
	key    string
	folder bool
}

func (s *sweep) names(folder string) ([]name, error) {
	dir, err := s.worktree.root.Open(folder + ".") // with the dot, a pipe is an error, and no wait
	if err != nil {
		return nil, err
	}
	entries, err := dir.ReadDir(-1)
	if closing := dir.Close(); err == nil {
		err = closing
	}
	names := make([]name, len(entries))
	for i, e := range entries {
		names[i] = name{key: e.Name(), folder: e.Type()&fs.ModeType == fs.ModeDir}
		if names[i].folder {
			names[i].key += "/"
		}
	}
	slices.SortFunc(names, func(a, b name) int { return cmp.Compare(a.key, b.key) })
	return names, err
}

// folder sweeps a folder, whose path ends with a slash, and reports whether anything stays in it.
func (s *sweep) folder(ctx context.Context, folder string) (stays bool, err error) {
	names, err := s.names(folder)
	if err != nil {
		return false, err
	}
	for _, n := range names {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		one, err := s.one(ctx, folder+n.key, n.folder)
		if err != nil {
			return false, err
		}
		stays = stays || one
	}
	return stays, nil
}

func (s *sweep) one(ctx context.Context, path string, folder bool) (stays bool, err error) {
	if folder {
		if stays, err = s.folder(ctx, path); err != nil || stays {
			return stays, err
		}
		return false, s.worktree.root.Remove(path[:len(path)-1])
	}
	for s.next != "" && s.next < path {
		if err := s.advance(); err != nil {
			return false, err
		}
	}
	if s.next == path {
		return true, nil
	}
	s.removed++
	return false, s.worktree.root.Remove(path)
}
