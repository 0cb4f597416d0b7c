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
	"github.com/muster-dev/muster/internal/osfile"
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
func unite(to, from string, parts []part) (err error) {
	into, err := os.OpenRoot(to)
	if err != nil {
		return fmt.Errorf("uniting what members wrote: %w", err)
	}
	defer func() { err = errors.Join(err, into.Close()) }()
	all, err := os.OpenRoot(from)
	if err != nil {
		return fmt.Errorf("uniting what members wrote: %w", err)
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	u := &union{to: to, into: into, from: from, all: all, writers: map[string]string{}}
	for i := range parts {
		p := &parts[i]
		if p.Outcome.Error != "" {
			continue
		}
		if err := u.add(p.folder(), p.Member); err != nil {
			return err
		}
	}
	return nil
}

// union is the united folder, with the member that wrote each path; from has the parts.
type union struct {
	to, from  string
	into, all *os.Root
	writers   map[string]string
}

// add puts the output of one member into the folder.
func (u *union) add(folder, member string) error {
	out, err := u.open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the member wrote nothing
	}
	if err != nil {
		return fmt.Errorf("uniting what members wrote: the output of %s: %w", member, err)
	}
	from := filepath.Join(u.from, folder, shift.OutFolder)
	err = osfile.Walk(out, func(name string, in *os.Root, e fs.DirEntry) error { return u.one(member, from, name, in, e) })
	if _, clash := errors.AsType[*ClashError](err); err != nil && !clash {
		err = fmt.Errorf("uniting what members wrote: %w", err)
	}
	return errors.Join(err, out.Close())
}

// open opens the output in the folder of a part.
func (u *union) open(folder string) (*os.Root, error) {
	part, err := osfile.OpenFolder(u.all, folder)
	if err != nil {
		return nil, err
	}
	defer func() { _ = part.Close() }()
	return osfile.OpenFolder(part, shift.OutFolder)
}

// one puts the entry that a member wrote at a path into the folder.
func (u *union) one(member, from, name string, in *os.Root, e fs.DirEntry) error {
	there, err := u.into.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		u.writers[name] = member
		if err := u.adopt(from, name, in, e); err != nil {
			return fmt.Errorf("%s of %s: %w", name, member, err)
		}
		return nil
	case err != nil:
		return err
	}
	clash := &ClashError{Path: name, One: u.writers[name], Other: member}
	switch {
	case there.Mode().Type() != e.Type():
		return clash
	case e.IsDir():
		return nil
	}
	equal, err := u.alike(name, in, e)
	if err != nil {
		return fmt.Errorf("comparing what %s and %s wrote to %s: %w", u.writers[name], member, name, err)
	}
	if !equal {
		return clash
	}
	return nil
}

// adopt puts a folder, a link or a file where it was not.
func (u *union) adopt(from, name string, in *os.Root, e fs.DirEntry) error {
	switch {
	case e.IsDir():
		return u.into.Mkdir(name, 0o755)
	case e.Type()&fs.ModeSymlink != 0:
		target, err := in.Readlink(e.Name())
		if err != nil {
			return err
		}
		return u.into.Symlink(target, name)
	case e.Type().IsRegular():
		// Both are in a folder that only the foreman writes to.
		return os.Link(filepath.Join(from, name), filepath.Join(u.to, name))
	}
	return &osfile.KindError{Name: name, Is: osfile.Kind(e.Type()), Want: "a file, a folder or a link"}
}

// alike says whether two links lead to the same, or two files have the same in them
// and both are programs or neither is.
func (u *union) alike(name string, in *os.Root, e fs.DirEntry) (bool, error) {
	if e.Type()&fs.ModeSymlink != 0 {
		a, err := in.Readlink(e.Name())
		b, failed := u.into.Readlink(name)
		return a == b, errors.Join(err, failed)
	}
	a, err := osfile.OpenRegular(in, e.Name())
	if err != nil {
		return false, err
	}
	defer func() { _ = a.Close() }()
	b, err := osfile.OpenRegular(u.into, name)
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
