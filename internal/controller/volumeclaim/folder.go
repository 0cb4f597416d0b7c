package volumeclaim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// folders are the volumes' folders below one folder. Every access goes through
// an [os.Root], which no symbolic link leads out of.
type folders struct{ dir string }

// The modes of the folders. What leads to a volume may be passed through but
// not listed; its last name holds the claim's UID, so that on a machine with
// many users nobody comes upon it. Where Muster runs as root, pods may run as
// any user, and all of them share the volume.
const (
	passMode   = 0o711
	sharedMode = 0o777
	ownMode    = 0o700
)

// create makes a volume's folder and returns its full path. One that exists is
// fine. With an owner, no other user may enter it.
func (f folders) create(folder string, owner *uint32) (string, error) {
	if err := os.MkdirAll(f.dir, passMode); err != nil {
		return "", fmt.Errorf("making the volume's folder: %w", inWords(err))
	}
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return "", fmt.Errorf("making the volume's folder: %w", err)
	}
	defer func() { _ = root.Close() }()
	parent := filepath.Dir(folder)
	mode := fs.FileMode(ownMode)
	if os.Geteuid() == 0 && owner == nil {
		mode = sharedMode
	}
	for _, step := range []struct {
		path string
		mode fs.FileMode
	}{{parent, passMode}, {folder, mode}} {
		err := root.Mkdir(step.path, step.mode)
		if errors.Is(err, fs.ErrExist) {
			if info, err := root.Lstat(step.path); err != nil || !info.IsDir() {
				return "", fmt.Errorf("making the volume's folder: %s is in the way; remove it", filepath.Join(f.dir, step.path))
			}
			continue
		}
		if err != nil {
			return "", fmt.Errorf("making the volume's folder: %w", inWords(err))
		}
		if err := root.Chmod(step.path, step.mode); err != nil { // whatever the umask
			return "", fmt.Errorf("making the volume's folder: %w", err)
		}
	}
	if owner != nil {
		if err := give(root, folder, *owner); err != nil {
			return "", fmt.Errorf("making the volume's folder: %w", err)
		}
	}
	return filepath.Join(f.dir, folder), nil
}

// give makes a folder a user's, unless it is the user's already. The folder above it is root's, so that no
// user can put a link in its place.
func give(root *os.Root, folder string, uid uint32) error {
	info, err := root.Lstat(folder)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && stat.Uid == uid:
		return nil
	case ok && stat.Uid != uint32(os.Geteuid()):
		return fmt.Errorf("%s belongs to user %d, not to the owner of its namespace, user %d: change its owner, or remove it", folder, stat.Uid, uid)
	}
	return errors.Join(root.Chmod(folder, ownMode), root.Lchown(folder, int(uid), -1))
}

// remove removes a volume's folder by its full path, which must be one that
// create makes. One that is gone is fine.
func (f folders) remove(path string) error {
	folder, ok := strings.CutPrefix(path, f.dir+string(filepath.Separator))
	if !ok || !safe(folder) {
		return fmt.Errorf("removing the volume's folder: %s is not one of the folders below %s; it is left alone: remove it by hand", path, f.dir)
	}
	root, err := os.OpenRoot(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing the volume's folder: %w", err)
	}
	defer func() { _ = root.Close() }()
	// A namespace's folder that is a link is not ours, wherever it leads.
	parent := filepath.Dir(folder)
	info, err := root.Lstat(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !info.IsDir() {
		return fmt.Errorf("removing the volume's folder: %s is not a folder; it is left alone: remove it by hand", filepath.Join(f.dir, parent))
	}
	if err := root.RemoveAll(folder); err != nil {
		return fmt.Errorf("removing the volume's folder: %w", err)
	}
	// The namespace's folder goes with its last volume; one that is not empty
	// stays.
	_ = root.Remove(parent)
	return nil
}

func inWords(err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("the disk that holds Muster's data folder is full; free some space: %w", err)
	case errors.Is(err, unix.EROFS):
		return fmt.Errorf("the disk that holds Muster's data folder is read-only: %w", err)
	}
	return err
}
