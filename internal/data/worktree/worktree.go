package worktree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/osfile"
)

// reserved begins the names of files that are being written.
const reserved = ".muster-partial-"

// Reserved reports whether a path has a name that only a file being written may have. A dataset
// with such a path cannot be checked out.
func Reserved(p string) bool {
	return strings.HasPrefix(p, reserved) || strings.Contains(p, "/"+reserved)
}

// Options are the settings of a [Worktree].
type Options struct {
	// Mask are the permissions that files do not get. Default: none.
	Mask fs.FileMode
	// RemoveFolders lets a file or link replace a folder that has something in it. Default: that is
	// an error.
	RemoveFolders bool
}

// Worktree is a folder that is written. [Worktree.Prepare] and [Worktree.Sweep] are for one
// goroutine; the other methods may be called by many at once, for different paths.
type Worktree struct {
	root    *os.Root
	options Options
	fresh   bool
	// made is the last folder that is known to be one.
	made    string
	names   names
	folders folders
}

// Open opens a folder, which it makes if necessary.
func Open(dir string, o Options) (*Worktree, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("making the folder for a checkout: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the folder for a checkout: %w", err)
	}
	return In(root, o)
}

// In uses a folder that is open. Closing the worktree closes it.
func In(root *os.Root, o Options) (*Worktree, error) {
	w := &Worktree{root: root, options: o, folders: folders{root: root}}
	var err error
	if w.fresh, err = isEmpty(root); err != nil {
		return nil, fmt.Errorf("reading the folder for a checkout: %w", errors.Join(err, root.Close()))
	}
	w.names.folds = !w.fresh && w.probe() // in a fresh folder, names that exist already tell
	return w, nil
}

func isEmpty(folder *os.Root) (bool, error) {
	top, err := folder.Open(".")
	if err != nil {
		return false, err
	}
	names, err := top.Readdirnames(1)
	_ = top.Close()
	if len(names) == 0 {
		return true, nil // at the end of the folder there is an error, too
	}
	return false, err
}

// Fresh reports whether nothing was in the folder.
func (w *Worktree) Fresh() bool { return w.fresh }

// Close closes the folder.
func (w *Worktree) Close() error {
	w.folders.close()
	return w.root.Close()
}

// Prepare makes the folder of a path and those above it. What else has one of their names is
// removed, links included, and counted. Paths have to come in order, each once.
func (w *Worktree) Prepare(entry string) (replaced int64, err error) {
	if Reserved(entry) {
		return 0, &NameError{fmt.Sprintf("the name of %q is reserved for files that are being written: it cannot be checked out", entry)}
	}
	if err := w.names.take(entry); err != nil {
		return 0, err
	}
	folder := path.Dir(entry)
	if folder == "." || folder == w.made || strings.HasPrefix(w.made, folder+"/") {
		return 0, nil
	}
	for at := 0; at < len(folder); {
		end := len(folder)
		if cut := strings.IndexByte(folder[at:], '/'); cut >= 0 {
			end = at + cut
		}
		name := folder[:end]
		at = end + 1
		if name == w.made || strings.HasPrefix(w.made, name+"/") {
			continue
		}
		took, err := w.mkdir(name)
		if err != nil {
			return replaced, err
		}
		if took {
			replaced++
		}
	}
	w.made = folder
	return replaced, nil
}

// mkdir makes one folder, and reports whether it removed something else for it.
func (w *Worktree) mkdir(name string) (replaced bool, err error) {
	err = w.root.Mkdir(name, 0o777)
	if !errors.Is(err, fs.ErrExist) {
		return false, wrap("making folder", name, err)
	}
	if w.fresh {
		return false, collision(name)
	}
	info, err := w.root.Lstat(name)
	if err != nil {
		return false, wrap("looking at", name, err)
	}
	if info.IsDir() {
		return false, nil
	}
	if err := w.root.Remove(name); err != nil {
		return false, wrap("removing what is in the place of folder", name, err)
	}
	return true, wrap("making folder", name, w.root.Mkdir(name, 0o777))
}

func wrap(doing, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", doing, name, err)
}

// collision is the error of a name that a fresh folder has already.
func collision(name string) error {
	return &NameError{fmt.Sprintf("%q and another name are one for this file system, which ignores case or forms of characters: check out on another file system, or rename one", name)}
}

// File is a file as it is to be.
type File struct {
	Path       string
	Size       int64
	Executable bool
	// Content names the bytes.
	Content digest.ID
}

// mode are the permissions of a file.
func (w *Worktree) mode(f *File) fs.FileMode {
	if f.Executable {
		return 0o777 &^ w.options.Mask
	}
	return 0o666 &^ w.options.Mask
}

// Candidate opens the file at a path if it may have the content already: it is a regular file of
// that size and executable or not. Else, or if it cannot be opened, the result is nil.
func (w *Worktree) Candidate(f *File) *os.File {
	if w.fresh {
		return nil
	}
	return w.regular(f.Path, f, os.O_RDONLY)
}

// regular opens a regular file as f describes it, nil where there is none. It follows no link.
func (w *Worktree) regular(at string, f *File, flag int) *os.File {
	root, name, done, err := w.folders.of(at)
	if err != nil {
		return nil
	}
	defer done()
	before, err := root.Lstat(name)
	if err != nil || !before.Mode().IsRegular() || before.Size() != f.Size || before.Mode()&0o100 != 0 != f.Executable {
		return nil
	}
	if flag&os.O_RDWR != 0 {
		if osfile.HasOtherNames(before) {
			return nil // writing it would change another file name's content, too
		}
		if before.Mode()&0o200 == 0 {
			if root.Chmod(name, before.Mode().Perm()|0o200) != nil {
				return nil
			}
			defer func() { _ = root.Chmod(name, before.Mode().Perm()) }()
		}
	}
	file, err := root.OpenFile(name, flag|osfile.NoFollow, 0)
	if err != nil {
		return nil
	}
	if after, err := file.Stat(); err != nil || !os.SameFile(before, after) {
		_ = file.Close()
		return nil
	}
	return file
}

// Write writes a file with its content, whole or not at all. It replaces what has its name.
func (w *Worktree) Write(f *File, content []byte) (replaced bool, err error) {
	err = w.create(f.Path, content, w.mode(f))
	if !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	if w.fresh {
		return false, collision(f.Path)
	}
	if err := w.clearPlace(f.Path); err != nil {
		return false, err
	}
	temp := f.temp()
	if err := w.root.RemoveAll(temp); err != nil {
		return false, err
	}
	if err := w.create(temp, content, w.mode(f)); err != nil {
		return false, err
	}
	return w.rename(temp, f.Path)
}

func (w *Worktree) create(at string, content []byte, mode fs.FileMode) error {
	root, name, done, err := w.folders.of(at)
	if err != nil {
		return err
	}
	defer done()
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, root.Remove(name))
	}
	return nil
}

// temp is the name that a file has while it is written: in its folder, so that it is on the same
// file system, and the same for the next try.
func (f *File) temp() string {
	id := digest.Of([]byte(f.Path + "\x00" + f.Content.String()))
	return path.Join(path.Dir(f.Path), reserved+id.String()[:16])
}

// clearPlace returns an error if a folder with something in it has the name.
func (w *Worktree) clearPlace(name string) error {
	if w.fresh || w.options.RemoveFolders {
		return nil
	}
	root, base, done, err := w.folders.of(name)
	if err != nil {
		return err
	}
	defer done()
	if info, err := root.Lstat(base); err != nil || !info.IsDir() {
		return nil // rename decides
	}
	if files, err := root.OpenRoot(base + "/."); err == nil {
		empty, err := isEmpty(files)
		_ = files.Close()
		if err == nil && !empty {
			return occupied(name)
		}
	}
	return nil
}

// rename gives a file its name. If that fails, the file is removed: another try fails, too, until a
// user clears the place.
func (w *Worktree) rename(temp, name string) (replaced bool, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, w.root.Remove(temp))
		}
	}()
	info, err := w.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, err
	default:
		if w.fresh {
			return false, collision(name)
		}
		replaced = true
		if info.IsDir() {
			if err := w.removeFolder(name); err != nil {
				return false, err
			}
		}
	}
	return replaced, w.root.Rename(temp, name)
}

// removeFolder removes a folder in the place of a file or link.
func (w *Worktree) removeFolder(name string) error {
	if w.options.RemoveFolders {
		return w.root.RemoveAll(name)
	}
	if err := w.root.Remove(name); err != nil {
		return occupied(name)
	}
	return nil
}

func occupied(name string) error {
	return fmt.Errorf("%q is to be a file or link, and is a folder with something in it: move that away, or have everything else removed (--mirror)", name)
}

// Link makes a symbolic link. It replaces what has its name; kept is true if that was the same link.
func (w *Worktree) Link(name, target string) (kept, replaced bool, err error) {
	if !w.fresh {
		info, err := w.root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return false, false, err
		case info.IsDir():
			replaced, err = true, w.removeFolder(name)
		case info.Mode()&fs.ModeSymlink != 0 && w.leadsTo(name, target):
			return true, false, nil
		default:
			replaced, err = true, w.root.Remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, false, err
		}
	}
	err = w.root.Symlink(target, name)
	if errors.Is(err, fs.ErrExist) {
		err = collision(name)
	}
	return false, replaced, err
}

func (w *Worktree) leadsTo(name, target string) bool {
	found, err := w.root.Readlink(name)
	return err == nil && found == target
}

// Inside removes a symbolic link that leads out of the folder, over other links too, and returns an
// error then. A link that leads to nothing is allowed.
func (w *Worktree) Inside(name string) error {
	_, err := w.root.Stat(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) || !osfile.Escapes(err) {
		return nil
	}
	err = fmt.Errorf("link %q leads out of the folder, over a link that was there before: check out into an empty folder, or have everything else removed (--mirror)", name)
	return errors.Join(err, w.root.Remove(name))
}
