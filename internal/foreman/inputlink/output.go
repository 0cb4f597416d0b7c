package inputlink

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/osfile"
)

// found is a link of an output.
type found struct{ name, input, within string }

// Settle settles the links to inputs in the output of a datum, and makes absolute links within the
// output relative. Other links stay. Folder is the folder of the datum, which the program knew by places.
func Settle(folder string, places Places) error {
	return each(folder, places, func(s *Settler, l *found) error { return s.replace(l) })
}

// Plainly gives links to inputs the target by which they travel. It settles links to inputs that
// the program has changed since a time: the receiver does not have the changes.
func Plainly(folder string, places Places, since time.Time) error {
	return each(folder, places, func(s *Settler, l *found) error {
		changed, err := s.changed(l.input, since)
		if err != nil || changed {
			return errors.Join(err, s.replace(l))
		}
		return s.relink(l.name, Plain(l.name, l.input))
	})
}

// each calls visit for each link of an output to an input, and makes absolute links relative.
func each(folder string, places Places, visit func(*Settler, *found) error) (err error) {
	datum, err := os.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("looking at the links of the output: %w", err)
	}
	defer func() { _ = datum.Close() }()
	out, err := osfile.OpenFolder(datum, shift.OutFolder)
	if err != nil {
		return nil // the check of the output refuses it
	}
	defer func() { _ = out.Close() }()
	var links []found
	err = osfile.Walk(out, func(name string, in *os.Root, e fs.DirEntry) error {
		if e.Type()&fs.ModeSymlink == 0 {
			return nil
		}
		target, err := in.Readlink(e.Name())
		if err != nil {
			return err
		}
		l := found{name: name}
		if l.input, l.within = places.Of(name, target); l.input != "" || l.within != "" {
			links = append(links, l)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("looking at the links of the output: %w", err)
	}
	s := &Settler{Out: out, Datum: datum}
	for i := range links {
		l := &links[i]
		if l.within != "" {
			err = s.relink(l.name, l.within)
		} else {
			err = visit(s, l)
		}
		if err != nil {
			return fmt.Errorf("keeping the target of link %s: %w", l.name, err)
		}
	}
	return nil
}

// replace puts the target of a link in the place of the link.
func (s *Settler) replace(l *found) error {
	if err := s.unlink(l.name); err != nil {
		return err
	}
	return s.Put(l.name, l.input)
}

// relink gives a link another target.
func (s *Settler) relink(name, target string) error {
	if err := s.unlink(name); err != nil {
		return err
	}
	return s.Out.Symlink(target, name)
}

// unlink removes a link. A file that replaced it meanwhile stays.
func (s *Settler) unlink(name string) error {
	info, err := s.Out.Lstat(name)
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink == 0:
		return fmt.Errorf("%s: %w", name, osfile.ErrChanged)
	}
	return s.Out.Remove(name)
}

// changed reports whether anything at an input path was changed since a time.
func (s *Settler) changed(input string, since time.Time) (bool, error) {
	at := path.Join(shift.InFolder, input)
	info, err := s.Datum.Stat(at)
	switch {
	case err != nil:
		return true, nil // settling it returns the error
	case !info.IsDir():
		return touched(info, since), nil
	case touched(info, since):
		return true, nil
	}
	folder, err := s.Datum.OpenRoot(at + "/.")
	if err != nil {
		return true, nil
	}
	defer func() { _ = folder.Close() }()
	changed := false
	err = osfile.Walk(folder, func(_ string, _ *os.Root, e fs.DirEntry) error {
		info, err := e.Info()
		if err == nil && touched(info, since) {
			changed, err = true, fs.SkipAll
		}
		return err
	})
	if errors.Is(err, fs.SkipAll) {
		err = nil
	}
	return changed, err
}

// touched reports whether a file was changed since a time. A program cannot set this time back.
func touched(info fs.FileInfo, since time.Time) bool {
	return osfile.StampOf(info).Ctime >= since.UnixNano()
}
