package worker

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/muster-dev/muster/internal/data/tree"
)

// CheckOutput refuses, in words, what cannot be kept: sockets, pipes, devices, and links
// that lead out of the output. A stage that wrote nothing is fine.
func CheckOutput(folder string) error {
	return filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("looking at what it wrote: %w", err)
		}
		if path == folder {
			return nil
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return fmt.Errorf("looking at what it wrote: %w", err)
		}
		if err := tree.CheckPath(name); err != nil {
			return fmt.Errorf("what it wrote: %w", err)
		}
		switch {
		case e.IsDir(), e.Type().IsRegular():
			return nil
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return fmt.Errorf("looking at what it wrote: %w", err)
			}
			if err := tree.CheckTarget(name, target); err != nil {
				return fmt.Errorf("what it wrote: %w", err)
			}
			return nil
		}
		return fmt.Errorf("it wrote %s, which is %s: only files, folders and links within the output can be kept", name, kind(e.Type()))
	})
}

func kind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "no regular file"
}
