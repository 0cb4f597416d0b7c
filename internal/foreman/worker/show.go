package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// show has the datum's files appear in the folder that the stage names, in place of
// those of the datum before.
func (w *worker) show(d shift.Datum) error {
	if w.program.Mount == "" {
		return nil
	}
	return Show(w.program.Mount, d.Folder, d.Folder, w.program.Inputs)
}

// Show has the inputs of a datum appear in a folder by their names, and its output as
// "out", in place of those that were shown there before. It makes links, which whoever
// follows them finds the datum's own folder by: it knows that as seen. An input that the
// datum has no part in, as one of a union, does not appear.
func Show(mount, folder, seen string, inputs []string) error {
	before, err := os.ReadDir(mount)
	if err != nil {
		return fmt.Errorf("showing the files at mountPath: %w", err)
	}
	for _, entry := range before {
		if entry.Type()&fs.ModeSymlink == 0 && entry.Name() != shift.OutFolder && !slices.Contains(inputs, entry.Name()) {
			continue // the program's own, which it may look for again
		}
		if err := os.RemoveAll(filepath.Join(mount, entry.Name())); err != nil {
			return fmt.Errorf("showing the files at mountPath: %w", err)
		}
	}
	err = os.Symlink(filepath.Join(seen, shift.OutFolder), filepath.Join(mount, shift.OutFolder))
	for _, name := range inputs {
		part := filepath.Join(shift.InFolder, name)
		switch _, there := os.Lstat(filepath.Join(folder, part)); {
		case errors.Is(there, fs.ErrNotExist):
		case there != nil:
			err = errors.Join(err, there)
		default:
			err = errors.Join(err, os.Symlink(filepath.Join(seen, part), filepath.Join(mount, name)))
		}
	}
	if err != nil {
		return fmt.Errorf("showing the files at mountPath: %w", err)
	}
	return nil
}

// intact refuses what a program wrote that put something of its own in place of the output
// where it is shown: that would be lost, and nobody told.
func intact(mount, folder string) error {
	if mount == "" {
		return nil
	}
	at, out := filepath.Join(mount, shift.OutFolder), filepath.Join(folder, shift.OutFolder)
	if to, err := os.Readlink(at); err != nil || to != out {
		return fmt.Errorf("it removed %s, or put something else in its place, which is not kept: have it write into that folder, below it where it wants a folder that is not there yet, or to $%s", at, envOutput)
	}
	return nil
}
