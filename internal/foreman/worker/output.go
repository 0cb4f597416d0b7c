package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/data/worktree"
	"github.com/muster-dev/muster/internal/foreman/inputlink"
	"github.com/muster-dev/muster/internal/osfile"
)

// CheckOutput returns an error if an output cannot be kept: a socket, pipe or device, a link
// that leads out of the output, or no folder in the place of the output. An empty output is
// allowed. The recording of the output finds changes that programs make later.
func CheckOutput(folder string) error { return checkOutput(folder, false) }

// unfitError reports an output that another try of the same program would write again.
type unfitError struct{ error }

// Unwrap returns the reason.
func (e *unfitError) Unwrap() error { return e.error }

// final reports whether another try of a datum would fail, too.
func final(err error) bool {
	_, unfit := errors.AsType[*unfitError](err)
	_, refused := errors.AsType[*inputlink.RefusedError](err)
	return unfit || refused
}

// checkOutput is [CheckOutput]. In an output that travels, links to inputs are as [inputlink.Plainly]
// leaves them.
func checkOutput(folder string, travels bool) error {
	datum, err := os.OpenRoot(filepath.Dir(folder))
	if err != nil {
		return fmt.Errorf("looking at what it wrote: %w", err)
	}
	defer func() { _ = datum.Close() }()
	output, err := osfile.OpenFolder(datum, filepath.Base(folder))
	if other, ok := errors.AsType[*osfile.KindError](err); ok {
		return &unfitError{fmt.Errorf("it put %s in the place of the folder for its output: have it write into that folder", other.Is)}
	}
	if err != nil {
		return fmt.Errorf("looking at what it wrote: %w", err)
	}
	defer func() { _ = output.Close() }()
	var refused error
	links := tree.Links{}
	err = osfile.Walk(output, func(name string, in *os.Root, e fs.DirEntry) (err error) {
		refused, err = checkEntry(name, in, e, links, travels)
		return errors.Join(refused, err)
	})
	if err == nil {
		if err := links.Check(); err != nil {
			return &unfitError{fmt.Errorf("what it wrote: %w", err)}
		}
		return nil
	}
	if refused != nil {
		return &unfitError{refused}
	}
	return fmt.Errorf("looking at what it wrote: %w", err)
}

// checkEntry refuses an entry that cannot be kept; err is an error of reading the entry.
// A link is added to links.
func checkEntry(name string, in *os.Root, e fs.DirEntry, links tree.Links, travels bool) (refused, err error) {
	if err := tree.CheckPath(name); err != nil {
		return fmt.Errorf("what it wrote: %w", err), nil
	}
	switch {
	case worktree.Reserved(name):
		return fmt.Errorf("it wrote %s, whose name is reserved for files that a checkout is writing: have it write to another one", name), nil
	case e.IsDir(), e.Type().IsRegular():
		return nil, nil
	case e.Type()&fs.ModeSymlink == 0:
		return fmt.Errorf("it wrote %s, which is %s: only files, folders and links within the output can be kept", name, osfile.Kind(e.Type())), nil
	}
	target, err := in.Readlink(e.Name())
	if err != nil {
		return nil, err
	}
	if input, _ := (inputlink.Places{}).Of(name, target); input == "" || !travels {
		links[name] = target
	}
	return nil, nil
}
