package shift

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Advance has the mark in the folder of a datum say that the datum is further, or makes
// one where there is none yet. What the file holds means nothing before its last name.
func Advance(folder, from, to string) error {
	path := filepath.Join(folder, to)
	err := os.Rename(filepath.Join(folder, from), path)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

// Conclude notes the outcome of a datum that was begun: whoever sees it sees all of it.
func Conclude(folder string, outcome []byte) (err error) {
	begun := filepath.Join(folder, BegunFile)
	// What it held before is written over, not thrown away first: a file system may take
	// that for the moment to bring it to disk.
	file, err := os.OpenFile(begun, os.O_CREATE|os.O_WRONLY, 0o600)
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
	return os.Rename(begun, filepath.Join(folder, OutcomeFile))
}
