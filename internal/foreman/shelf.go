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

	"github.com/muster-dev/muster/internal/foreman/shift"
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
// have open, is always new.
type shelf struct {
	dir string // of the work

	mu    sync.Mutex
	names []string
	made  int
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
// or removed where there are enough, or where it cannot be emptied.
func (s *shelf) give(folder string) error {
	s.mu.Lock()
	full := len(s.names) >= mostSpare
	s.made++
	name := spare + strconv.Itoa(s.made)
	s.mu.Unlock()
	if full || empty(folder) != nil || os.Rename(folder, filepath.Join(s.dir, name)) != nil {
		return os.RemoveAll(folder)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, name)
	return nil
}

// empty leaves of the folder of a datum the folder of its inputs, without any, and the
// mark.
func empty(folder string) error {
	// First of all it is not the folder of a datum that is done any more.
	err := os.Rename(filepath.Join(folder, shift.OutcomeFile), filepath.Join(folder, unmarked))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("emptying the folder of a datum: %w", err)
	}
	in := filepath.Join(folder, shift.InFolder)
	if info, err := os.Lstat(in); err != nil || !info.IsDir() {
		return fmt.Errorf("emptying the folder of a datum: %s is no folder", in)
	}
	return errors.Join(sweep(folder, shift.InFolder, unmarked), sweep(in))
}

// sweep removes what is in a folder, but for some of it.
func sweep(folder string, but ...string) error {
	list, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("emptying a folder: %w", err)
	}
	for _, e := range list {
		if slices.Contains(but, e.Name()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(folder, e.Name())); err != nil {
			return fmt.Errorf("emptying a folder: %w", err)
		}
	}
	return nil
}
