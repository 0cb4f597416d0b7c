package osfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// newFile begins the names of files that are being written. A crash may leave
// one behind; readers of a folder skip names that begin with a dot.
const newFile = ".new-"

// Replace writes a file in place of the one at path, if there is one. Readers, and
// a machine that crashes, see the old content or the new one, never a part. When
// Replace returns nil, the new content survives a loss of power.
//
// It writes a temporary file in the same folder, syncs it, renames it and syncs
// the folder. On an error it removes the temporary file.
func Replace(path string, content []byte, mode fs.FileMode) error {
	return replaceAt(path, content, mode, true)
}

// ReplaceUnsynced is [Replace] without both syncs: readers see the old content or
// the new one, but after a loss of power the file may be old, empty or gone. It is
// for files that are valid only as long as the machine is up.
func ReplaceUnsynced(path string, content []byte, mode fs.FileMode) error {
	return replaceAt(path, content, mode, false)
}

func replaceAt(path string, content []byte, mode fs.FileMode, sync bool) error {
	folder, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return errors.Join(replace(folder, filepath.Base(path), content, mode, sync), folder.Close())
}

// replace replaces the file with this name in a folder.
func replace(folder *os.Root, name string, content []byte, mode fs.FileMode, sync bool) error {
	temporary := newFile + rand.Text()
	err := write(folder, temporary, content, mode, sync)
	if err == nil {
		err = folder.Rename(temporary, name)
	}
	if err != nil {
		if left := folder.Remove(temporary); !errors.Is(left, fs.ErrNotExist) {
			err = errors.Join(err, left)
		}
		return fmt.Errorf("writing %s: %w", filepath.Join(folder.Name(), name), err)
	}
	if !sync {
		return nil
	}
	if err := syncRoot(folder); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Join(folder.Name(), name), err)
	}
	return nil
}

// write makes a new file. Only its owner may read the file until all of it is written.
func write(folder *os.Root, name string, content []byte, mode fs.FileMode, sync bool) error {
	file, err := folder.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Chmod(mode)
	}
	if err == nil && sync {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// MakeFolder makes a folder, and the folders above it that are missing, so that
// their names survive a loss of power. The name of a folder that is there already
// is synced too: the process that made it may have ended before it synced it.
func MakeFolder(path string, mode fs.FileMode) error {
	path = filepath.Clean(path)
	parent := filepath.Dir(path)
	err := os.Mkdir(path, mode)
	if errors.Is(err, fs.ErrNotExist) && parent != path {
		if err := MakeFolder(parent, mode); err != nil {
			return err
		}
		err = os.Mkdir(path, mode)
	}
	there := errors.Is(err, fs.ErrExist)
	if there {
		var info fs.FileInfo
		if info, err = os.Stat(path); err == nil && !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: path, Err: fs.ErrExist}
		}
	}
	if err != nil {
		return err
	}
	err = SyncFolder(parent)
	if there && errors.Is(err, fs.ErrPermission) {
		return nil // the owner of the parent made the folder, such as a mounted volume
	}
	return err
}
