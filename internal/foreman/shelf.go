package foreman

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/osfile"
)

// spare begins the name of a folder that no datum has.
const spare = ".spare-"

// unmarked is, in such a folder, the file that says how far the datum is that has it:
// see [shift.GivenFile].
const unmarked = "unmarked"

// mostSpare is how many such folders there are at most.
const mostSpare = stockDatums

// shelf has the folders of datums that are recorded, for the datums that come next.
// A small datum costs little more than the files that are made for it and removed
// again, so what no program is shown is used again: the folder, the one of the inputs,
// and the mark. What a program is shown, which something that it left behind may still
// have open, is always new where it is not known that nothing is left; else the folders
// of each input and of the output are used again, and a log that nothing was written to.
type shelf struct {
	dir    string   // of the work
	inputs []string // the names of their folders

	mu    sync.Mutex
	names []string
	made  int
	// outer is how the folder of a datum looks as it is made here, inner how that of
	// its inputs does, and those in it; nil: not known.
	outer, inner *look
}

// learn looks at the folder of a datum, and at the one of its inputs, that were just
// made.
func (s *shelf) learn(folder, in *os.Root) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inner != nil {
		return
	}
	outer, err := lookInto(folder)
	if err != nil {
		return
	}
	if inner, err := lookInto(in); err == nil {
		s.outer, s.inner = &outer, &inner
	}
}

// take makes a folder that is spare the one at a path, where nothing is yet; it says
// whether there was one.
func (s *shelf) take(to string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.names) == 0 {
		return false
	}
	last := len(s.names) - 1
	err := os.Rename(filepath.Join(s.dir, s.names[last]), to)
	if errors.Is(err, fs.ErrExist) {
		return false // somebody tried the datum before: its log stays
	}
	s.names = s.names[:last]
	return err == nil
}

// give takes the folder of a datum that nobody needs any more: it is emptied and kept,
// or removed where there are enough, or where it cannot be emptied. alone says that
// nothing is left that was shown it.
func (s *shelf) give(folder string, alone bool) error {
	s.mu.Lock()
	full := len(s.names) >= mostSpare
	s.made++
	name := spare + strconv.Itoa(s.made)
	k := keeper{outer: s.outer, inner: s.inner, alone: alone && s.inner != nil}
	s.mu.Unlock()
	if full || k.empty(folder, s.inputs) != nil || os.Rename(folder, filepath.Join(s.dir, name)) != nil {
		return os.RemoveAll(folder)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, name)
	return nil
}

// keeper empties a folder.
type keeper struct {
	outer, inner *look // of folders as they were made
	alone        bool  // nothing is left that was shown what is in it
}

// empty leaves of the folder of a datum the folder of its inputs and the mark, and what
// is as good as new of that which the program was shown.
func (k *keeper) empty(path string, inputs []string) error {
	folder, err := os.OpenRoot(path)
	if err != nil {
		return fmt.Errorf("emptying the folder of a datum: %w", err)
	}
	defer func() { _ = folder.Close() }()
	// First of all it is not the folder of a datum that is done any more.
	if err := unmark(folder); err != nil {
		return fmt.Errorf("emptying the folder of a datum: %w", err)
	}
	in, err := osfile.OpenFolder(folder, shift.InFolder)
	if err != nil {
		return fmt.Errorf("emptying the folder of a datum: %w", err)
	}
	defer func() { _ = in.Close() }()
	// A program that is shown what is in a folder can change the folder, too.
	if k.inner != nil && (!k.outer.is(folder) || !k.inner.is(in)) {
		return fmt.Errorf("emptying the folder of a datum: %s is not as it was made", path)
	}
	return errors.Join(
		k.sweep(folder, func(e fs.DirEntry) bool {
			return e.Name() == shift.InFolder || e.Name() == unmarked && e.Type().IsRegular()
		}, shift.OutFolder, shift.LogFile),
		k.sweep(in, func(fs.DirEntry) bool { return false }, inputs...),
	)
}

// unmark renames the mark of a datum that is done, so that it says nothing any more. A mark
// that is no file, or has another name, too, is an error.
func unmark(folder *os.Root) error {
	info, err := folder.Lstat(shift.OutcomeFile)
	if err == nil && (!info.Mode().IsRegular() || osfile.HasOtherNames(info)) {
		return fmt.Errorf("%s is %s: it has to be a file with one name", shift.OutcomeFile, osfile.Kind(info.Mode()))
	}
	if err == nil {
		err = folder.Rename(shift.OutcomeFile, unmarked)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// sweep removes what is in a folder, but for what stays, and what is as good as new of
// some of it.
func (k *keeper) sweep(folder *os.Root, stays func(fs.DirEntry) bool, may ...string) error {
	list, err := osfile.Names(folder)
	if err != nil {
		return fmt.Errorf("emptying a folder: %w", err)
	}
	for _, e := range list {
		if stays(e) || slices.Contains(may, e.Name()) && k.renew(folder, e) {
			continue
		}
		if err := folder.RemoveAll(e.Name()); err != nil {
			return fmt.Errorf("emptying a folder: %w", err)
		}
	}
	return nil
}

// mostFolder is how large a folder may be, by itself, that is used again: one in which
// many files were stays as large as it was.
const mostFolder = 4096

// renew makes a folder as good as new, or finds that a log is; it says whether it did.
// A log that has another name, too, is whoever's gave it that.
func (k *keeper) renew(in *os.Root, e fs.DirEntry) bool {
	switch {
	case !k.alone:
		return false
	case e.Name() == shift.LogFile:
		now, err := lookUpon(in, e.Name())
		empty := *k.inner
		empty.mode = unix.S_IFREG | 0o600
		return err == nil && now.same(&empty) && now.size == 0 && now.links == 1
	}
	folder, err := osfile.OpenFolder(in, e.Name())
	if err != nil {
		return false
	}
	defer func() { _ = folder.Close() }()
	now, err := lookInto(folder)
	return err == nil && now.same(k.inner) && now.size <= mostFolder && k.sweep(folder, func(fs.DirEntry) bool { return false }) == nil
}
