package shift

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/muster-dev/muster/internal/osfile"
)

// Advance has the mark in the folder of a datum say that the datum is further, or makes
// one where there is none yet. What the file holds means nothing before its last name.
func Advance(folder, from, to string) error {
	in, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	err = in.Rename(from, to)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := openMark(in, to)
	if err != nil {
		return err
	}
	return file.Close()
}

// Conclude notes the outcome of a datum that was begun: whoever sees it sees all of it.
func Conclude(folder string, outcome []byte) (err error) {
	in, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	// What it held before is written over, not thrown away first: a file system may take
	// that for the moment to bring it to disk.
	file, err := openMark(in, BegunFile)
	if err != nil {
		return err
	}
	_, err = file.Write(outcome)
	if err == nil {
		err = file.Truncate(int64(len(outcome)))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing an outcome: %w", err)
	}
	return in.Rename(BegunFile, OutcomeFile)
}

// openMark opens the mark for writing. It makes one if there is none, or if a program put
// something else there, such as a link.
func openMark(in *os.Root, name string) (*os.File, error) {
	file, err := osfile.OpenOwn(in, name)
	if err == nil {
		return file, nil
	}
	return osfile.CreateRegular(in, name, 0o600)
}
