package source

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/muster-dev/muster/internal/osfile"
)

// disk is every way in which a store writes, so that tests can cut the power
// at each of them.
type disk interface {
	// mkdir makes a folder; one that exists is fine.
	mkdir(path string) error
	// create makes a new file; one that exists is an error.
	create(path string) (file, error)
	// rename gives a file its final name, replacing what was there.
	rename(from, to string) error
	// remove removes a file; one that is not there is fine.
	remove(path string) error
	// touch sets a file's time.
	touch(path string, at time.Time) error
	// syncDir makes the names in a folder survive a loss of power.
	syncDir(path string) error
}

// file is a file being written.
type file interface {
	io.Writer
	// Sync makes the content survive a loss of power.
	Sync() error
	Close() error
}

// osDisk is the real one.
type osDisk struct{}

func (osDisk) mkdir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (osDisk) create(path string) (file, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}

func (osDisk) rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (osDisk) touch(path string, at time.Time) error { return os.Chtimes(path, at, at) }

func (osDisk) syncDir(path string) error {
	return osfile.SyncFolder(path)
}
