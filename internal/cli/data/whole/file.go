package whole

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/osfile"
)

// File makes the file at path of what write writes, in place of what is there. Only when
// write has returned nil and all of it is on the disk has it that name; else nothing is
// left of it, and what was there before stays. It is readable for all. A path at which
// there is a device or a pipe is written to as it is. What write returns is returned as it
// is.
func File(path string, write func(io.Writer) error) (err error) {
	if err := check(path); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return through(path, write)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".muster-*"+filepath.Ext(path))
	if err != nil {
		return fmt.Errorf("making %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = file.Close() // if it is not closed yet
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if err := write(file); err != nil {
		return err
	}
	if err := errors.Join(file.Chmod(0o644), file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("giving the file its name: %w", err)
	}
	if err := osfile.SyncFolder(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// through writes to what is no file, which keeps its place.
func through(path string, write func(io.Writer) error) (err error) {
	to, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("writing to %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	return write(to)
}

// check says in words, before anything is done, why no file can have a name.
func check(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return exit.Usage("%s is a folder: name a file, such as %s", path, filepath.Join(path, "archive.tar"))
	}
	folder := filepath.Dir(path)
	info, err := os.Stat(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exit.Usage("there is no folder %s for %s: make it first (mkdir -p %[1]s), or name another file", folder, filepath.Base(path))
	case err == nil && !info.IsDir():
		return exit.Usage("%s, in which %s would be, is no folder: name another file", folder, filepath.Base(path))
	}
	return nil
}
