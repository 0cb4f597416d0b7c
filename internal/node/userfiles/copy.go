package userfiles

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/muster-dev/muster/internal/osfile"
)

// The methods below run in a helper, as the user.

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// copy makes a folder hold what an open folder holds, unless it exists. It has its name once it is whole.
func (p Place) copy(from *os.File) (err error) {
	if from == nil {
		return errors.New("no folder to copy was given")
	}
	source, err := os.OpenRoot(byNumber(int(from.Fd())) + "/.")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	in, name, err := p.parent()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if _, err := in.Lstat(name); err == nil {
		return nil
	}
	unfinished := name + ".unfinished"
	folder, err := emptyFolder(in, p, unfinished)
	if err != nil {
		return err
	}
	err = osfile.Walk(source, func(at string, _ *os.Root, e fs.DirEntry) error {
		return copyEntry(source, folder, at, e)
	})
	if err = errors.Join(err, folder.Close()); err != nil {
		return err
	}
	return in.Rename(unfinished, name)
}

// emptyFolder makes a folder beside a place, in place of one that an interrupted call left.
func emptyFolder(in *os.Root, p Place, name string) (*os.Root, error) {
	beside := p
	beside.Below = path.Join(path.Dir(p.Below), name)
	if err := beside.remove(); err != nil {
		return nil, err
	}
	if err := in.Mkdir(name, 0o700); err != nil {
		return nil, err
	}
	return osfile.OpenFolder(in, name)
}

func copyEntry(source, folder *os.Root, at string, e fs.DirEntry) error {
	switch {
	case e.IsDir():
		return folder.Mkdir(at, 0o700)
	case e.Type()&fs.ModeSymlink != 0:
		target, err := source.Readlink(at)
		if err != nil {
			return err
		}
		return folder.Symlink(target, at)
	case e.Type().IsRegular():
		return copyFile(source, folder, at)
	}
	return fmt.Errorf("%s is %s: only files, folders and links are copied", at, osfile.Kind(e.Type()))
}

func copyFile(source, folder *os.Root, at string) (err error) {
	from, err := source.Open(at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	to, err := folder.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600|info.Mode()&0o100)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// mostPayload is the size, in bytes, of the largest payload as JSON: many Secrets of 1 MiB each.
const mostPayload = 64 << 20

// replace makes a folder hold the files of a payload, in one step for its readers.
func (p Place) replace(from *os.File) error {
	if from == nil {
		return errors.New("no payload was given")
	}
	text, err := io.ReadAll(io.NewSectionReader(from, 0, mostPayload+1))
	if err != nil {
		return err
	}
	if len(text) > mostPayload {
		return fmt.Errorf("the payload has more than %d bytes", mostPayload)
	}
	var files Payload
	if err := json.Unmarshal(text, &files); err != nil {
		return err
	}
	if err := p.makeAll(0o700); err != nil {
		return err
	}
	fd, err := p.openFD(unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return files.Put(byNumber(fd))
}
