package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/osfile"
)

// Folder is a source of everything below a folder, or of one file, by its name.
// Symbolic links are kept as links; those that lead out of the folder, sockets,
// pipes and devices are refused by name. Empty folders are left out.
func Folder(path string) Source { return &folderSource{path: path} }

type folderSource struct{ path string }

func (*folderSource) inOrder() bool { return true }

// walker goes through a folder and through what the dataset has there, side by
// side.
type walker struct {
	*feed
	root    string
	top     *os.Root
	last    *notesReader
	present func() (*tree.Entry, error, bool)
	// base is the next entry of the dataset below To, nil at its end.
	base *tree.Entry
}

func (s *folderSource) feed(ctx context.Context, f *feed) error {
	root, err := filepath.Abs(s.path)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return fmt.Errorf("looking at what is to be put: %w", err)
	}
	// Other programs may write to the folder meanwhile: nothing outside of it is read.
	info, err := os.Lstat(root)
	if err != nil {
		return fmt.Errorf("looking at what is to be put: %w", err)
	}
	dir := root
	if !info.IsDir() {
		dir = filepath.Dir(root)
	}
	if f.root, err = os.OpenRoot(dir); err != nil {
		return fmt.Errorf("opening the folder that is to be put: %w", err)
	}
	next, stop := iter.Pull2(f.session.trees.From(ctx, f.base, f.to))
	defer stop()
	w := &walker{feed: f, root: dir, top: f.root, present: next}
	if err := w.advance(); err != nil {
		return err
	}
	if !info.IsDir() {
		if err := w.visit(ctx, f.root, info.Name(), info.Mode()); err != nil {
			return err
		}
		return w.rest(ctx)
	}
	w.last = f.session.store.readNotes(root)
	defer w.last.close()
	f.notes = f.session.writeNotes(root, f.to)
	if err := w.folder(ctx, f.root, ""); err != nil {
		return err
	}
	return w.rest(ctx)
}

// rest removes what the dataset has behind the last path of the folder.
func (w *walker) rest(ctx context.Context) error {
	_, err := w.upTo(ctx, "")
	return err
}

// advance goes to the next entry of the dataset.
func (w *walker) advance() error {
	e, err, ok := w.present()
	w.base = nil
	if ok && err == nil && strings.HasPrefix(e.Path, w.to) {
		w.base = e
	}
	return err
}

// upTo is the entry that the dataset has at a path, if any. What it has before is
// not in the folder, and is removed where that is wanted. Empty: up to the end.
func (w *walker) upTo(ctx context.Context, path string) (*tree.Entry, error) {
	for w.base != nil && (path == "" || w.base.Path < path) {
		if w.replace {
			if err := w.add(ctx, item{entry: tree.Entry{Path: w.base.Path}, remove: true}); err != nil {
				return nil, err
			}
		}
		if err := w.advance(); err != nil {
			return nil, err
		}
	}
	if w.base == nil || w.base.Path != path {
		return nil, nil
	}
	found := w.base
	return found, w.advance()
}

// child is a name in a folder, and what it comes by in the order of paths.
type child struct {
	name, key string
	mode      fs.FileMode
}

// folder visits what is in a folder, in the order of whole paths: a folder comes
// where its name with a slash belongs.
func (w *walker) folder(ctx context.Context, here *os.Root, rel string) error {
	if len(rel) > tree.MaxPath {
		return fmt.Errorf("the path of folder %.80q... has %d bytes: at most %d are possible", rel, len(rel), tree.MaxPath)
	}
	entries, err := osfile.Names(here)
	if err != nil {
		return fmt.Errorf("reading folder %s: %w", filepath.Join(w.root, rel), err)
	}
	children := make([]child, len(entries))
	for i, e := range entries {
		c := child{name: e.Name(), key: e.Name(), mode: e.Type()}
		if e.IsDir() {
			c.key += "/"
		}
		children[i] = c
	}
	slices.SortFunc(children, func(a, b child) int { return cmp.Compare(a.key, b.key) })
	for _, c := range children {
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.mode.IsDir() {
			err = w.below(ctx, here, c.name, rel+c.key)
		} else {
			err = w.visit(ctx, here, rel+c.name, c.mode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// below visits the entries of a folder in a folder.
func (w *walker) below(ctx context.Context, here *os.Root, name, rel string) error {
	folder, err := osfile.OpenFolder(here, name)
	if err != nil {
		return fmt.Errorf("reading folder %s: %w", filepath.Join(w.root, rel), err)
	}
	return errors.Join(w.folder(ctx, folder, rel), folder.Close())
}

// visit sends the file or link at a path; here is its folder.
func (w *walker) visit(ctx context.Context, here *os.Root, rel string, mode fs.FileMode) error {
	it := item{entry: tree.Entry{Path: w.to + rel, Kind: tree.File}, file: filepath.Join(w.root, rel), in: w.top, at: rel}
	if err := tree.CheckPath(it.entry.Path); err != nil {
		return err
	}
	var err error
	if it.base, err = w.upTo(ctx, it.entry.Path); err != nil {
		return err
	}
	it.was = it.base
	switch mode.Type() {
	case 0:
		return w.file(ctx, here, rel, it)
	case fs.ModeSymlink:
		return w.link(ctx, here, rel, it)
	}
	return fmt.Errorf("%s is %s: only files, folders and symbolic links can be put: remove it, or put the files beside it", it.file, osfile.Kind(mode))
}

func (w *walker) link(ctx context.Context, here *os.Root, rel string, it item) error {
	target, err := here.Readlink(path.Base(rel))
	if err != nil {
		return fmt.Errorf("reading link %s: %w", it.file, err)
	}
	if err := tree.CheckTarget(rel, target); err != nil {
		return fmt.Errorf("in %s: %w", w.root, err)
	}
	it.file = ""
	it.entry.Kind, it.entry.Target, it.entry.Size = tree.Link, target, int64(len(target))
	return w.add(ctx, it)
}

func (w *walker) file(ctx context.Context, here *os.Root, rel string, it item) error {
	info, err := here.Lstat(path.Base(rel))
	if err != nil {
		return fmt.Errorf("looking at %s: %w", it.file, err)
	}
	it.stamp = stampOfInfo(info)
	it.entry.Size = it.stamp.size
	if found, ok := w.last.find(rel); ok && !w.checksum && it.base != nil && w.last.trusted(found, it.stamp) {
		is := tree.Entry{
			Path: it.entry.Path, Kind: tree.File, Size: it.stamp.size,
			Executable: it.stamp.executable(), Content: found.content, List: found.list,
		}
		if is.Same(it.base) {
			it.entry, it.same = *it.base, true
			return w.add(ctx, it)
		}
	}
	if it.stamp.size <= small {
		return w.add(ctx, it)
	}
	return w.long(ctx, it)
}

// long sends a file that is too long to be read as a whole, again if it changes
// meanwhile.
func (w *walker) long(ctx context.Context, it item) error {
	if err := w.hint(ctx, it.was); err != nil {
		return err
	}
	for range readTries {
		stable, err := w.longOnce(ctx, &it)
		if err != nil {
			return fmt.Errorf("reading %s: %w", it.file, err)
		}
		if err := w.finish(ctx, &it, !stable); err != nil || stable {
			return err
		}
	}
	return changing(it.file)
}

func (w *walker) longOnce(ctx context.Context, it *item) (stable bool, err error) {
	file, before, err := w.session.store.opened(it.in, it.at)
	if err != nil {
		return false, unlessChanged(err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := w.feed.long(ctx, file); err != nil {
		return false, err
	}
	after, err := stampOf(file)
	it.stamp, it.entry.Executable = after, after.executable()
	return after == before, err
}
