package harvest

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/data/worktree"
	"github.com/muster-dev/muster/internal/foreman"
	"github.com/muster-dev/muster/internal/foreman/excerpt"
	"github.com/muster-dev/muster/internal/foreman/shift"
	"github.com/muster-dev/muster/internal/osfile"
	"github.com/muster-dev/muster/internal/pipeline"
)

// Made writes the log of a datum and, unless the datum failed, its output. It returns a
// [foreman.SpoiledError] for an output that cannot be recorded.
func Made(out *tar.Writer, at string, r *foreman.Result) error {
	root, err := os.OpenRoot(r.Folder)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := writeLog(out, at+"/"+pipeline.LogFile, root); err != nil || r.Failed() {
		return err
	}
	made, err := osfile.OpenFolder(root, shift.OutFolder)
	if err != nil {
		return spoiled(r.Datum.ID, err)
	}
	defer func() { _ = made.Close() }()
	return spoiled(r.Datum.ID, Folder(out, at+"/"+pipeline.OutFolder, made))
}

// outputError reports a file of an output that no dataset can have.
type outputError struct{ error }

// Unwrap returns the cause.
func (e *outputError) Unwrap() error { return e.error }

// spoiled wraps an error about a file of an output as one that no other try changes. Errors of
// the reader of the tar stay as they are.
func spoiled(id string, err error) error {
	_, kind := errors.AsType[*osfile.KindError](err)
	_, output := errors.AsType[*outputError](err)
	if kind || output || errors.Is(err, osfile.ErrChanged) || errors.Is(err, fs.ErrNotExist) {
		return &foreman.SpoiledError{ID: id, Why: err}
	}
	return err
}

// writeLog writes the excerpt of a datum's log, if there is a log.
func writeLog(out *tar.Writer, name string, root *os.Root) (err error) {
	log, err := osfile.OpenRegular(root, shift.LogFile)
	if _, other := errors.AsType[*osfile.KindError](err); other || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	info, err := log.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	kept, size := excerpt.Of(log, info.Size(), excerpt.Most)
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600}); err != nil {
		return err
	}
	// A log may still grow by what a program left behind.
	if _, err = io.CopyN(out, kept, size); errors.Is(err, io.EOF) {
		err = fmt.Errorf("reading %s, which had %d bytes: %w", name, size, osfile.ErrChanged)
	}
	return err
}

// Text writes a small file.
func Text(out *tar.Writer, name string, text []byte) error {
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)), Mode: 0o644}); err != nil {
		return err
	}
	_, err := out.Write(text)
	return err
}

func writeFile(out *tar.Writer, at string, in *os.Root, name string) (err error) {
	file, err := osfile.OpenRegular(in, name)
	if err != nil {
		return fmt.Errorf("reading %s: %w", at, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: at, Size: info.Size(), Mode: int64(info.Mode().Perm())}); err != nil {
		return err
	}
	if _, err = io.CopyN(out, file, info.Size()); errors.Is(err, io.EOF) {
		err = fmt.Errorf("reading %s, which had %d bytes: %w", at, info.Size(), osfile.ErrChanged)
	}
	return err
}

// Folder writes everything below a folder; its files were checked when the datum was done. Nothing
// outside of the folder is read, and nothing but files and links, also if programs that still run
// change the folder meanwhile.
func Folder(out *tar.Writer, at string, folder *os.Root) error {
	links := tree.Links{}
	err := osfile.Walk(folder, func(name string, in *os.Root, e fs.DirEntry) error {
		switch {
		case e.IsDir():
			return nil
		case worktree.Reserved(name):
			return &outputError{fmt.Errorf("the name of %s is reserved for files that a checkout is writing", name)}
		}
		full := path.Join(at, name)
		if err := tree.CheckPath(full); err != nil {
			return &outputError{err}
		}
		if e.Type()&fs.ModeSymlink == 0 {
			return writeFile(out, full, in, e.Name())
		}
		target, err := in.Readlink(e.Name())
		if err != nil {
			return err
		}
		if err := tree.CheckTarget(name, target); err != nil {
			return &outputError{err}
		}
		links[name] = target
		return out.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: full, Linkname: target})
	})
	if err != nil {
		return err
	}
	if err := links.Check(); err != nil {
		return &outputError{err}
	}
	return nil
}
