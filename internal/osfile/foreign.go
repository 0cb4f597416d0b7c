package osfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
)

// The functions below are for folders that another process may write to meanwhile, such as a program
// of a user. A name is that of one entry in the folder. No function follows a symbolic link, waits for
// the other end of a pipe, or acts on an entry that replaced the one that the function checked.

// KindError reports an entry of another kind than expected.
type KindError struct {
	Name string
	// Is is its kind, Want is the kind that is allowed, each as [Kind] says it.
	Is, Want string
}

// Error implements error.
func (e *KindError) Error() string {
	return fmt.Sprintf("%s is %s: it has to be %s", e.Name, e.Is, e.Want)
}

// Kind names the kind of a file with its article, as error messages do.
func Kind(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "neither a file nor a folder"
}

// ErrChanged is wrapped by errors about an entry that was replaced while it was opened.
var ErrChanged = errors.New("it was changed meanwhile")

var errOtherName = errors.New("the file has another name, too (a hard link)")

// OpenFolder opens a folder in a folder. The error is a [KindError] for another kind.
func OpenFolder(in *os.Root, name string) (*os.Root, error) {
	before, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, &KindError{Name: name, Is: Kind(before.Mode()), Want: "a folder"}
	}
	// Without the dot the call waits for a pipe that has the name by now.
	folder, err := in.OpenRoot(name + "/.")
	if err != nil {
		return nil, err
	}
	if after, err := folder.Stat("."); err != nil || !os.SameFile(before, after) {
		return nil, errors.Join(fmt.Errorf("opening folder %s: %w", name, ErrChanged), folder.Close())
	}
	return folder, nil
}

// OpenRegular opens a regular file in a folder for reading. The error is a [KindError] for
// another kind.
func OpenRegular(in *os.Root, name string) (*os.File, error) {
	return openAs(in, name, os.O_RDONLY)
}

// OpenOwn opens a regular file in a folder for writing, from its beginning. A file with another name
// (hard link) is an error: the write would change that file, too.
func OpenOwn(in *os.Root, name string) (*os.File, error) {
	return openAs(in, name, os.O_WRONLY)
}

func openAs(in *os.Root, name string, flag int) (*os.File, error) {
	before, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, &KindError{Name: name, Is: Kind(before.Mode()), Want: "a file"}
	}
	file, err := in.OpenFile(name, flag|NoFollow, 0)
	if err != nil {
		return nil, err
	}
	after, err := file.Stat()
	switch {
	case err != nil || !os.SameFile(before, after):
		err = fmt.Errorf("opening %s: %w", name, ErrChanged)
	case flag != os.O_RDONLY && HasOtherNames(after):
		err = fmt.Errorf("%s is not written to: %w", name, errOtherName)
	default:
		return file, nil
	}
	return nil, errors.Join(err, file.Close())
}

// ReadRegular reads a regular file. A file of more than most bytes is an error.
func ReadRegular(in *os.Root, name string, most int64) (text []byte, err error) {
	file, err := OpenRegular(in, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if text, err = io.ReadAll(io.LimitReader(file, most+1)); err != nil {
		return nil, err
	}
	if int64(len(text)) > most {
		return nil, fmt.Errorf("%s has more than %d bytes: at most that many are allowed", name, most)
	}
	return text, nil
}

// CreateRegular makes a file in a folder, in place of a file, link, pipe, socket or device of that
// name; the target of a link stays as it is. A folder that is not empty is an error.
func CreateRegular(in *os.Root, name string, mode fs.FileMode) (*os.File, error) {
	if err := in.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return in.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
}

// AppendRegular opens a file in a folder for writing at its end, and makes it if there is none. A link,
// pipe, socket or device of that name, or a file with another name (hard link), is replaced.
func AppendRegular(in *os.Root, name string, mode fs.FileMode) (*os.File, error) {
	file, err := openAs(in, name, os.O_WRONLY|os.O_APPEND)
	_, other := errors.AsType[*KindError](err)
	if other || errors.Is(err, errOtherName) || errors.Is(err, fs.ErrNotExist) {
		return CreateRegular(in, name, mode)
	}
	return file, err
}

// ReplaceRegular is [ReplaceUnsynced] for a name in a folder: readers see the old content or the new
// one. A link, pipe, socket or device of that name is replaced; a folder is an error.
func ReplaceRegular(in *os.Root, name string, content []byte, mode fs.FileMode) error {
	return replace(in, name, content, mode, false)
}

// Escapes reports whether [os.Root] refused a path because the path leads out.
func Escapes(err error) bool {
	var wrapped *fs.PathError
	return errors.As(err, &wrapped) && wrapped.Err.Error() == "path escapes from parent"
}

// Names returns the entries of a folder, in order.
func Names(in *os.Root) ([]fs.DirEntry, error) {
	dir, err := in.Open(".")
	if err != nil {
		return nil, err
	}
	list, err := dir.ReadDir(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return list, nil
}

// batch is how many names of a folder [Each] reads at once.
const batch = 1024

// Each calls visit for the entries of a folder, in any order. Unlike [Names] it needs memory for
// a few of them at a time, however many a program has put there. Visit may remove the entry.
func Each(in *os.Root, visit func(fs.DirEntry) error) (err error) {
	dir, err := in.Open(".")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	for {
		list, err := dir.ReadDir(batch)
		for _, e := range list {
			if err := visit(e); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// deepest is the largest depth of [Walk], in folders: as deep as a path of 4,096 bytes can be.
// Walk keeps each of them open meanwhile.
const deepest = 2048

// Walk calls visit for everything below a folder, in order: with its slash-separated path, and the
// open folder that it is in. A folder comes before its entries. A folder that is deeper than 2,048
// others is an error.
func Walk(top *os.Root, visit func(path string, in *os.Root, e fs.DirEntry) error) error {
	return walk(top, "", deepest, visit)
}

func walk(in *os.Root, prefix string, deep int, visit func(string, *os.Root, fs.DirEntry) error) error {
	list, err := Names(in)
	if err != nil {
		return err
	}
	for _, e := range list {
		at := path.Join(prefix, e.Name())
		if err := visit(at, in, e); err != nil {
			return err
		}
		if !e.IsDir() {
			continue
		}
		if deep == 0 {
			return fmt.Errorf("%.80q... lies below %d folders: at most %d are allowed", at, deepest+1, deepest)
		}
		folder, err := OpenFolder(in, e.Name())
		if err != nil {
			return err
		}
		if err := errors.Join(walk(folder, at, deep-1, visit), folder.Close()); err != nil {
			return err
		}
	}
	return nil
}
