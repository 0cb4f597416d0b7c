package codevolume

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/muster-dev/muster/internal/osfile"
)

const (
	// copyWithin is for how long it is waited for the pod's empty volume, which
	// the kubelet makes at the same time.
	copyWithin = 10 * time.Second
	copyLook   = 10 * time.Millisecond
)

// copyName is the copy in the pod's empty volume.
const copyName = "code"

// copy lays a pod's own copy of a tree out in an empty volume of the pod, where
// it and what is written to it count as the pod's ephemeral storage, and goes with
// it. What an earlier life of the machine left is made anew.
func (d *depot) copy(ctx context.Context, v volume, again bool) (place, error) {
	dir, err := d.emptyVolume(ctx, v)
	if err != nil {
		return place{}, err
	}
	made := place{dir, copyName}
	// Containers of the pod can write to the volume. They cannot replace the volume's folder.
	volume, err := os.OpenRoot(dir)
	if err != nil {
		return place{}, fmt.Errorf("copying %s: %w", v.Digest, err)
	}
	defer func() { _ = volume.Close() }()
	if info, err := volume.Lstat(copyName); again && err == nil && info.IsDir() {
		return made, nil
	}
	temp := ".new-" + rand.Text()
	defer func() { _ = volume.RemoveAll(temp) }() // does nothing once it is renamed
	err = volume.RemoveAll(copyName)
	if err == nil {
		err = d.copyTree(v, volume, temp)
	}
	if err == nil {
		err = volume.Rename(temp, copyName)
	}
	if err != nil {
		return place{}, fmt.Errorf("copying %s: %w", v.Digest, err)
	}
	return made, nil
}

// copyTree copies the tree of a volume into a new folder of the pod's volume. Every user may
// write to the copy: containers run as any user, and only containers of the job see the copy.
func (d *depot) copyTree(v volume, volume *os.Root, name string) (err error) {
	source, err := d.openTree(v)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	to, err := folderFor(volume, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	return osfile.Walk(source, func(path string, in *os.Root, e fs.DirEntry) error {
		switch {
		case e.IsDir():
			made, err := folderFor(to, path)
			if err != nil {
				return err
			}
			return made.Close()
		case e.Type()&fs.ModeSymlink != 0:
			link, err := in.Readlink(e.Name())
			if err != nil {
				return err
			}
			return to.Symlink(link, path)
		case e.Type().IsRegular():
			return copyFile(in, e.Name(), to, path)
		}
		return fmt.Errorf("%s is neither a file, a folder nor a link", path)
	})
}

// folderFor makes a folder that every user may write to, with any umask.
func folderFor(in *os.Root, name string) (*os.Root, error) {
	if err := in.Mkdir(name, 0o777); err != nil {
		return nil, err
	}
	made, err := osfile.OpenFolder(in, name)
	if err != nil {
		return nil, err
	}
	if err := made.Chmod(".", 0o777); err != nil {
		return nil, errors.Join(err, made.Close())
	}
	return made, nil
}

func copyFile(from *os.Root, name string, to *os.Root, path string) error {
	in, err := osfile.OpenRegular(from, name)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	mode := info.Mode().Perm() | 0o666
	out, err := to.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(mode), out.Close())
}

// emptyVolume is the folder of the pod's empty volume, once the kubelet has made
// it: one that nobody named in the pod would be in its way.
func (d *depot) emptyVolume(ctx context.Context, v volume) (string, error) {
	const plugin = "kubernetes.io~empty-dir"
	ready := filepath.Join(d.pods, v.Pod, "plugins", plugin, v.Copy, "ready")
	ctx, cancel := context.WithTimeout(ctx, copyWithin)
	defer cancel()
	tick := time.NewTicker(copyLook)
	defer tick.Stop()
	for {
		if info, err := os.Lstat(ready); err == nil && info.Mode().IsRegular() {
			return filepath.Join(d.pods, v.Pod, "volumes", plugin, v.Copy), nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("pod %s has no emptyDir %s that a container mounts, for its copy of the code: name one beside the attribute copy, or leave that out and have the code read-only", v.Pod, v.Copy)
		case <-tick.C:
		}
	}
}
