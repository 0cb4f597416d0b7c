package inputlink

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/osfile"
)

// Most is the largest number of files, folders and links that one output has by links to inputs.
const Most = 10_000_000

// RefusedError reports a link that cannot be settled, whenever it is tried.
type RefusedError struct{ text string }

// Error implements error.
func (e *RefusedError) Error() string { return e.text }

func refuse(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }

// Settler settles the links of one output.
type Settler struct {
	// Out is the output, and Datum the folder in which the inputs are.
	Out, Datum *os.Root
	// Take, unless it is nil, is called before each file, with its size. Its error is the settler's.
	Take func(bytes int64) error
	made int
}

// Put makes the file or folder at an input path in the output at name, where no file may be.
func (s *Settler) Put(name, input string) error {
	top, rest, _ := strings.Cut(input, "/")
	inputs, err := osfile.OpenFolder(s.Datum, shift.InFolder)
	if err != nil {
		return fmt.Errorf("opening the inputs: %w", err)
	}
	defer func() { _ = inputs.Close() }()
	folder, err := osfile.OpenFolder(inputs, top)
	if err != nil {
		return refuse("%s leads to input %q, which is not there: make the program link to a file or folder of an input", name, top)
	}
	defer func() { _ = folder.Close() }()
	if rest == "" {
		rest = "."
	}
	// The root follows links of the input, and none that leads out of it.
	info, err := folder.Stat(rest)
	switch {
	case err != nil:
		return refuse("%s leads to %s of input %s, which cannot be kept in its place: %v", name, rest, top, errors.Unwrap(err))
	case info.IsDir():
		below, err := folder.OpenRoot(rest + "/.")
		if err != nil {
			return fmt.Errorf("opening %s of input %s: %w", rest, top, err)
		}
		defer func() { _ = below.Close() }()
		return s.folder(name, below)
	case info.Mode().IsRegular():
		return s.file(name, folder, rest)
	}
	return refuse("%s leads to %s of input %s, which is %s: only files and folders of an input can be kept", name, rest, top, osfile.Kind(info.Mode()))
}

// one counts an entry of the output.
func (s *Settler) one(size int64) error {
	if s.made++; s.made > Most {
		return refuse("its links lead to more than %d files of inputs: make the program link to fewer", Most)
	}
	if s.Take == nil {
		return nil
	}
	return s.Take(size)
}

// folder makes a folder of the output like one of an input.
func (s *Settler) folder(name string, from *os.Root) error {
	if err := s.one(0); err != nil {
		return err
	}
	if err := s.Out.Mkdir(name, 0o755); err != nil {
		return err
	}
	return osfile.Walk(from, func(below string, in *os.Root, e fs.DirEntry) error {
		at := path.Join(name, below)
		switch {
		case e.IsDir():
			if err := s.one(0); err != nil {
				return err
			}
			return s.Out.Mkdir(at, 0o755)
		case e.Type().IsRegular():
			return s.file(at, in, e.Name())
		case e.Type()&fs.ModeSymlink != 0:
			return s.link(at, below, in, e.Name())
		}
		return refuse("%s of an input is %s: only files and folders of an input can be kept", below, osfile.Kind(e.Type()))
	})
}

// link makes a link of a folder of an input as it is, where it stays in that folder.
func (s *Settler) link(at, below string, in *os.Root, name string) error {
	target, err := in.Readlink(name)
	if err != nil {
		return err
	}
	if tree.CheckTarget(below, target) != nil {
		return refuse("%s is a link of an input that leads out of the folder to which the program linked: make it link to the files in that folder, or copy them", below)
	}
	if err := s.one(0); err != nil {
		return err
	}
	return s.Out.Symlink(target, at)
}

// file makes a file of the output another name of one of an input, or a copy where the file system or
// the file's owner does not allow that.
func (s *Settler) file(at string, in *os.Root, name string) (err error) {
	// It does not wait for a pipe that is put there meanwhile.
	file, err := in.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return refuse("the target of %s is %s by now: only files and folders of an input can be kept", at, osfile.Kind(info.Mode()))
	}
	if err := s.one(info.Size()); err != nil {
		return err
	}
	if err := s.name(file, at); !errors.Is(err, errCopy) {
		return err
	}
	made, err := s.Out.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644|info.Mode()&0o111)
	if err != nil {
		return err
	}
	_, err = io.Copy(made, file)
	return errors.Join(err, made.Close())
}

var errCopy = errors.New("the file cannot have another name there")

// name gives an open file another name in the output.
func (s *Settler) name(file *os.File, at string) error {
	parent, err := s.Out.OpenRoot(path.Dir(at) + "/.")
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }()
	dir, err := parent.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	from := "/proc/self/fd/" + strconv.FormatUint(uint64(file.Fd()), 10)
	err = unix.Linkat(unix.AT_FDCWD, from, int(dir.Fd()), path.Base(at), unix.AT_SYMLINK_FOLLOW)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist):
		return &fs.PathError{Op: "link", Path: at, Err: err}
	}
	return errCopy
}
