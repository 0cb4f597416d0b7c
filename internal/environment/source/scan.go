package source

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	datatree "github.com/muster-dev/muster/internal/data/tree"
)

// scanned is what was found at a path, before any file is read.
type scanned struct {
	// root is the folder, without symbolic links in its path; of a single
	// file, the file.
	root string
	// dir is the folder that files are read in.
	dir   string
	tree  tree
	files []scannedFile
	bytes int64

	skipped      []Skipped
	skippedCount int
}

// scannedFile is one file to be read; its name is relative to the folder.
type scannedFile struct {
	name  string
	info  fs.FileInfo
	entry int // in tree.Entries
}

// countAtMost bounds the counting that goes on, for the sake of a good
// message, once a folder has too many files.
const countAtMost = 500_000

// scan walks the folder and takes down what a snapshot of it holds.
func scan(ctx context.Context, name string, opts Options) (*scanned, error) {
	root, err := filepath.EvalSymlinks(name)
	if err == nil {
		root, err = filepath.Abs(root)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the code: %w", err)
	}
	info, err := os.Stat(root)
	if err != nil {
		return nil, fmt.Errorf("looking for the code: %w", err)
	}
	if opts.Without != "" {
		if opts.Without, err = filepath.EvalSymlinks(opts.Without); err != nil {
			return nil, fmt.Errorf("looking for what is not code: %w", err)
		}
	}
	w := &walk{ctx: ctx, limits: opts, found: &scanned{root: root, dir: root, tree: tree{Version: treeVersion}}}
	switch {
	case info.IsDir():
		err = w.folder(root, "", startingRules(root))
	case info.Mode().IsRegular():
		w.found.dir = filepath.Dir(root)
		err = w.file(filepath.Base(root), filepath.Base(name), info)
	default:
		err = fmt.Errorf("it is neither a folder nor a file")
	}
	if err != nil {
		return nil, err
	}
	if err := w.guard(); err != nil {
		return nil, err
	}
	// The walk judged each link by its target on disk; this judges it by the snapshot's entries.
	if err := w.found.tree.checkLinks(); err != nil {
		return nil, err
	}
	return w.found, nil
}

// walk is one walk over a folder.
type walk struct {
	ctx    context.Context
	limits Options
	found  *scanned
}

// folder takes down the content of one folder; rel is its slash-separated
// path, empty for the root.
func (w *walk) folder(abs, rel string, inherited rules) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	entries, err := os.ReadDir(abs)
	if err != nil {
		return readingError(shown(rel), err)
	}
	if rel != "" && isEnvironment(entries) {
		w.skip(rel, "a Python environment; say which packages the job needs with --requirements or --python")
		return nil
	}
	ignore, err := inherited.enter(abs, rel, entries)
	if err != nil {
		return err
	}
	if rel != "" {
		info, err := os.Lstat(abs)
		if err != nil {
			return readingError(rel, err)
		}
		w.add(entry{Path: rel, Type: typeFolder, Mode: uint32(info.Mode().Perm())})
	}
	for _, e := range entries {
		if err := w.entry(abs, path.Join(rel, e.Name()), e, ignore); err != nil {
			return err
		}
		if len(w.found.files) > w.limits.MaxFiles && len(w.found.files) >= countAtMost {
			return nil // enough to say so
		}
	}
	return nil
}

func (w *walk) entry(parent, rel string, e fs.DirEntry, ignore rules) error {
	abs := filepath.Join(parent, e.Name())
	if reason := ignore.reason(rel, e.IsDir()); reason != "" {
		w.skip(rel, reason)
		return nil
	}
	if !utf8.ValidString(e.Name()) {
		return fmt.Errorf("the name %q is not valid UTF-8; rename it, or name its folder in .musterignore", rel)
	}
	switch e.Type() {
	case fs.ModeDir:
		if abs == w.limits.Without {
			w.skip(rel, "Muster's own data")
			return nil
		}
		return w.folder(abs, rel, ignore)
	case fs.ModeSymlink:
		return w.link(abs, rel)
	case 0:
		info, err := e.Info()
		if err != nil {
			return readingError(rel, err)
		}
		return w.file(filepath.FromSlash(rel), rel, info)
	}
	w.skip(rel, kindOf(e.Type())+" cannot be part of a snapshot")
	return nil
}

func (w *walk) file(name, rel string, info fs.FileInfo) error {
	w.found.files = append(w.found.files, scannedFile{name: name, info: info, entry: len(w.found.tree.Entries)})
	w.found.bytes += info.Size()
	w.add(entry{Path: rel, Type: typeFile, Mode: uint32(info.Mode().Perm()), Size: info.Size()})
	return nil
}

// link takes down a symbolic link that stays inside the folder. It is judged
// by what it says and by where it really leads: "link/.." is not always the
// folder that it looks like.
func (w *walk) link(abs, rel string) error {
	target, err := os.Readlink(abs)
	if err != nil {
		return readingError(rel, err)
	}
	if filepath.IsAbs(target) {
		return w.linkOutside(rel, target)
	}
	outside := !inside(path.Join(path.Dir(rel), filepath.ToSlash(target)))
	if !outside && w.overOutside(rel, target) {
		w.add(entry{Path: rel, Type: typeLink, Target: target})
		return nil
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil && !outside {
		from, err := filepath.Rel(w.found.root, real)
		outside = err != nil || !inside(filepath.ToSlash(from))
	}
	if outside {
		return fmt.Errorf("the symbolic link %s leads out of the folder, to %s; copy its target, make it a relative link inside the folder, name it in .musterignore, or mount the data as a volume", rel, target)
	}
	w.add(entry{Path: rel, Type: typeLink, Target: target})
	return nil
}

// linkOutside records a link to an absolute path, if its reader sees that path.
func (w *walk) linkOutside(rel, target string) error {
	places := []string{filepath.Clean(target)}
	if real, err := filepath.EvalSymlinks(target); err == nil {
		places = append(places, real)
	}
	for _, at := range places {
		if from, err := filepath.Rel(w.found.root, at); err == nil && inside(filepath.ToSlash(from)) {
			return fmt.Errorf("the symbolic link %s leads into the folder by an absolute path, %s; make it a relative link, so that it leads into the snapshot", rel, target)
		}
	}
	if w.limits.Outside == nil {
		return fmt.Errorf("the symbolic link %s leads out of the folder, to %s; copy its target, make it a relative link inside the folder, name it in .musterignore, or mount the data as a volume", rel, target)
	}
	if err := w.limits.Outside(rel, target); err != nil {
		return fmt.Errorf("the symbolic link %s leads out of the folder, to %s: %w", rel, target, err)
	}
	w.add(entry{Path: rel, Type: typeLink, Target: target})
	return nil
}

// overOutside reports whether a link leads over another one to an absolute path, and only further
// down from there. That other link is judged by itself.
func (w *walk) overOutside(rel, target string) bool {
	if w.limits.Outside == nil {
		return false
	}
	at, rest := path.Dir(rel), strings.Split(filepath.ToSlash(target), "/")
	for followed := 0; len(rest) > 0 && followed < datatree.MostFollowed; {
		at, rest = path.Join(at, rest[0]), rest[1:]
		next, err := os.Readlink(filepath.Join(w.found.root, filepath.FromSlash(at)))
		switch {
		case !inside(at):
			return false
		case err != nil: // no link
		case filepath.IsAbs(next):
			return !slices.Contains(rest, "..")
		default:
			followed++
			at, rest = path.Dir(at), slices.Concat(strings.Split(filepath.ToSlash(next), "/"), rest)
		}
	}
	return false
}

func inside(rel string) bool {
	return rel != ".." && !strings.HasPrefix(rel, "../") && !path.IsAbs(rel)
}

func (w *walk) add(e entry) { w.found.tree.Entries = append(w.found.tree.Entries, e) }

func (w *walk) skip(rel, reason string) {
	w.found.skippedCount++
	if len(w.found.skipped) < MaxSkipped {
		w.found.skipped = append(w.found.skipped, Skipped{Path: rel, Reason: reason})
	}
}

// isEnvironment recognises virtual and conda environments by what every one of
// them holds.
func isEnvironment(entries []fs.DirEntry) bool {
	for _, e := range entries {
		if e.Name() == "pyvenv.cfg" && e.Type().IsRegular() || e.Name() == "conda-meta" && e.IsDir() {
			return true
		}
	}
	return false
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}

func shown(rel string) string {
	if rel == "" {
		return "the folder"
	}
	return rel
}
