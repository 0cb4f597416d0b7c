package pipeline

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/pipeline/glob"
)

// reader reads one version of a stage's sources.
type reader struct {
	trees *tree.Tree
	// roots are the trees of the sources, by index.
	roots []tree.Root
}

// roots are the trees of commits.
func roots(commits []commit.Commit) []tree.Root {
	all := make([]tree.Root, len(commits))
	for i := range commits {
		all[i] = commits[i].Tree
	}
	return all
}

// found is a file or folder that a source's glob matches.
type found struct {
	Given
	values []string
}

// find shows what a source has, in the order of paths: all that its glob matches,
// or, with a group, what has a value for it.
func (r *reader) find(ctx context.Context, s *Source, group int, value string, see func(found) error) error {
	root := r.roots[s.Index]
	if root.ID.IsZero() {
		return nil
	}
	if s.Glob.Whole() {
		return see(found{Given: s.all(root)})
	}
	f := &finder{source: s, see: see, gatherer: gatherer{source: s}, group: group, value: value}
	prefix := s.Glob.PrefixOf(group, value)
	for e, err := range r.trees.From(ctx, root, prefix) {
		if err != nil {
			return err
		}
		if !strings.HasPrefix(e.Path, prefix) {
			break
		}
		if err := f.entry(e); err != nil {
			return err
		}
	}
	return f.finish()
}

// finder puts entries together to what a glob matches.
type finder struct {
	gatherer
	source *Source
	see    func(found) error
	group  int
	value  string

	open   bool
	path   string
	values []string
}

func (f *finder) entry(e *tree.Entry) error {
	path, folder, ok := f.source.Glob.Datum(e.Path)
	if !ok {
		return nil
	}
	if f.open && folder && path == f.path {
		f.add(e)
		return nil
	}
	if err := f.finish(); err != nil {
		return err
	}
	f.values, ok = f.source.Glob.Match(path, folder)
	if !ok || f.group > 0 && f.values[f.group-1] != f.value {
		return nil
	}
	f.open, f.path = true, path
	f.begin(path, folder)
	f.add(e)
	return nil
}

func (f *finder) finish() error {
	if !f.open {
		return nil
	}
	f.open = false
	return f.see(found{Given: f.end(), values: f.values})
}

// at is what a source has at the path of a datum; nil where there is nothing, or
// nothing that its glob matches.
func (r *reader) at(ctx context.Context, s *Source, path string) (*found, error) {
	root := r.roots[s.Index]
	switch {
	case root.ID.IsZero():
		return nil, nil
	case s.Glob.Whole():
		return &found{Given: s.all(root)}, nil
	}
	g := gatherer{source: s}
	e, err := r.trees.Get(ctx, root, path)
	if err == nil {
		values, ok := s.Glob.Match(path, false)
		if !ok {
			return nil, nil
		}
		g.begin(path, false)
		g.add(&e)
		return &found{Given: g.end(), values: values}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) || s.Glob.Deep() {
		return nil, ignoreMissing(err)
	}
	values, ok := s.Glob.Match(path, true)
	if !ok {
		return nil, nil
	}
	g.begin(path, true)
	for e, err := range r.trees.From(ctx, root, path+"/") {
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(e.Path, path+"/") {
			break
		}
		g.add(e)
	}
	if g.given.Files == 0 {
		return nil, nil
	}
	return &found{Given: g.end(), values: values}, nil
}

// there says whether a source has anything at the path of a datum, without reading
// what is below, and with which values.
func (r *reader) there(ctx context.Context, s *Source, path string) (values []string, ok bool, err error) {
	root := r.roots[s.Index]
	if root.ID.IsZero() || s.Glob.Whole() {
		return nil, !root.ID.IsZero(), nil
	}
	_, err = r.trees.Get(ctx, root, path)
	if err == nil {
		values, ok = s.Glob.Match(path, false)
		return values, ok, nil
	}
	if ignoreMissing(err) != nil {
		return nil, false, err
	}
	for e, err := range r.trees.From(ctx, root, path+"/") {
		if err != nil {
			return nil, false, err
		}
		if strings.HasPrefix(e.Path, path+"/") {
			values, ok = s.Glob.Match(path, true)
		}
		break
	}
	return values, ok, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// touched is what differs at one path of a source.
type touched struct {
	path   string
	values []string
	// is is what is there now, nil where it is gone. was says that something was
	// there before.
	is  *found
	was bool
}

// difference is what differs in a source between two versions, in the order of
// paths, at the cost of what differs below its glob.
func difference(ctx context.Context, old, now *reader, s *Source) ([]touched, error) {
	before, after := old.roots[s.Index], now.roots[s.Index]
	if before.ID == after.ID {
		return nil, nil
	}
	paths, err := changedPaths(ctx, now.trees, before, after, s.Glob)
	if err != nil {
		return nil, err
	}
	var all []touched
	for _, path := range paths {
		values, was, err := old.there(ctx, s, path)
		if err != nil {
			return nil, err
		}
		is, err := now.at(ctx, s, path)
		if err != nil {
			return nil, err
		}
		if !was && is == nil {
			continue
		}
		if is != nil {
			values = is.values
		}
		all = append(all, touched{path: path, values: values, is: is, was: was})
	}
	return all, nil
}

// changedPaths are the paths at which datums of a glob may differ between two
// trees, in order, each once.
func changedPaths(ctx context.Context, trees *tree.Tree, before, after tree.Root, g *glob.Pattern) ([]string, error) {
	if g.Whole() {
		return []string{""}, nil
	}
	var paths []string
	for c, err := range trees.DiffBelow(ctx, before, after, g.Prefix()) {
		if err != nil {
			return nil, err
		}
		path, folder, ok := g.Datum(c.Path)
		if !ok || len(paths) > 0 && paths[len(paths)-1] == path {
			continue
		}
		if _, ok := g.Match(path, folder); ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}
