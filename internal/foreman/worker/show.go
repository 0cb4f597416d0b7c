package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// show has a datum's inputs appear in the folder that the stage names, by their
// names, and its output as "out", in place of the datum before. The folder is the
// worker's own, and holds nothing else. An input that the datum has no part in,
// as one of a union, does not appear.
func (w *worker) show(d shift.Datum) error {
	mount := w.program.Mount
	if mount == "" {
		return nil
	}
	before, err := os.ReadDir(mount)
	if err != nil {
		return fmt.Errorf("showing the files at mountPath: %w", err)
	}
	for _, entry := range before {
		if entry.Type()&fs.ModeSymlink == 0 {
			continue // the program's own, which it may look for again
		}
		if err := os.Remove(filepath.Join(mount, entry.Name())); err != nil {
			return fmt.Errorf("showing the files at mountPath: %w", err)
		}
	}
	err = os.Symlink(filepath.Join(d.Folder, shift.OutFolder), filepath.Join(mount, shift.OutFolder))
	for _, name := range w.program.Inputs {
		from := filepath.Join(d.Folder, shift.InFolder, name)
		switch _, there := os.Lstat(from); {
		case errors.Is(there, fs.ErrNotExist):
		case there != nil:
			err = errors.Join(err, there)
		default:
			err = errors.Join(err, os.Symlink(from, filepath.Join(mount, name)))
		}
	}
	if err != nil {
		return fmt.Errorf("showing the files at mountPath: %w", err)
	}
	return nil
}
