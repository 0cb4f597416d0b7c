package foreman

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/muster-dev/muster/internal/foreman/shift"
)

// ClashError says that two members wrote different things to one path.
type ClashError struct {
	Path string
	// One and Other are members, as role/index.
	One, Other string
}

// Error implements error.
func (e *ClashError) Error() string {
	return fmt.Sprintf("members %s and %s both wrote %s, and not the same: have one of them write it, or each below a name of its own", e.One, e.Other, e.Path)
}

// unite puts what members wrote into one folder, which is empty, by links to the same
// files. One path is one member's, unless others wrote the same there; folders are
// everybody's. What a member wrote that failed is left out.
func unite(to, from string, parts []part) error {
	writers := map[string]string{}
	for i := range parts {
		p := &parts[i]
		if p.Outcome.Error != "" {
			continue
		}
		if err := uniteOne(to, filepath.Join(from, p.folder(), shift.OutFolder), p.Member, writers); err != nil {
			return err
		}
	}
	return nil
}

func uniteOne(to, from, member string, writers map[string]string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if path == from && errors.Is(err, fs.ErrNotExist) {
			return nil // it wrote nothing
		}
		if err != nil {
			return fmt.Errorf("uniting what members wrote: %w", err)
		}
		name, err := filepath.Rel(from, path)
		if err != nil || name == "." {
			return err
		}
		clash := func() error { return &ClashError{Path: name, One: writers[name], Other: member} }
		target := filepath.Join(to, name)
		there, err := os.Lstat(target)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			writers[name] = member
			if err := adopt(path, target, e); err != nil {
				return fmt.Errorf("uniting what members wrote: %s of %s: %w", name, member, err)
			}
			return nil
		case err != nil:
			return fmt.Errorf("uniting what members wrote: %w", err)
		case there.Mode().Type() != e.Type():
			return clash()
		case e.IsDir():
			return nil
		}
		equal, err := alike(path, target, e)
		if err != nil {
			return fmt.Errorf("comparing what %s and %s wrote to %s: %w", writers[name], member, name, err)
		}
		if !equal {
			return clash()
		}
		return nil
	})
}

// adopt puts a folder, a link or a file where it was not.
func adopt(from, to string, e fs.DirEntry) error {
	switch {
	case e.IsDir():
		return os.Mkdir(to, 0o755)
	case e.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	return os.Link(from, to)
}

// alike says whether two links lead to the same, or two files have the same in them
// and both are programs or neither is.
func alike(one, other string, e fs.DirEntry) (bool, error) {
	if e.Type()&fs.ModeSymlink != 0 {
		a, err := os.Readlink(one)
		b, failed := os.Readlink(other)
		return a == b, errors.Join(err, failed)
	}
	a, err := os.Open(one)
	if err != nil {
		return false, err
	}
	defer func() { _ = a.Close() }()
	b, err := os.Open(other)
	if err != nil {
		return false, err
	}
	defer func() { _ = b.Close() }()
	first, err := a.Stat()
	if err != nil {
		return false, err
	}
	second, err := b.Stat()
	if err != nil {
		return false, err
	}
	const program = 0o100
	if first.Size() != second.Size() || first.Mode()&program != second.Mode()&program {
		return false, nil
	}
	return sameBytes(a, b)
}

func sameBytes(a, b io.Reader) (bool, error) {
	one, other := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(a, one)
		m, failed := io.ReadFull(b, other)
		if !bytes.Equal(one[:n], other[:m]) {
			return false, nil
		}
		over := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		switch {
		case err != nil && !over:
			return false, err
		case failed != nil && !errors.Is(failed, io.EOF) && !errors.Is(failed, io.ErrUnexpectedEOF):
			return false, failed
		case over:
			return true, nil
		}
	}
}
