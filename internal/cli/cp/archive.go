package cp

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// pack writes a local file or folder as a tar whose top is called name.
func pack(ctx context.Context, out io.Writer, local, name string) error {
	archive := tar.NewWriter(out)
	err := filepath.WalkDir(local, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		relative, err := filepath.Rel(local, at)
		if err != nil {
			return err
		}
		return packOne(archive, at, path.Join(name, filepath.ToSlash(relative)), entry)
	})
	if err != nil {
		return err
	}
	return archive.Close()
}

func packOne(archive *tar.Writer, at, name string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	link := ""
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		if link, err = os.Readlink(at); err != nil {
			return err
		}
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil
	}
	header, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	header.Name = name
	header.Uid, header.Gid, header.Uname, header.Gname = 0, 0, "", ""
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	file, err := os.Open(at)
	if err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return errors.Join(err, file.Close())
}

// unpack writes the files of a tar below folder, which is made where missing.
// Its only file is called rename where that is not empty. Nothing is ever
// written outside of folder, whatever the archive names; links that lead out
// of it are left out, and said on notes.
func unpack(in io.Reader, folder, rename string, notes io.Writer) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	archive := tar.NewReader(in)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			// Read on to the end, so that the sender is not cut off in its padding.
			_, err = io.Copy(io.Discard, in)
			return err
		}
		if err != nil {
			return err
		}
		name := path.Clean(header.Name)
		if name == "." {
			continue
		}
		if !filepath.IsLocal(name) {
			return fmt.Errorf("the member sent the path %q, which leads out of the folder: nothing was written there", header.Name)
		}
		if rename != "" {
			name = rename
		}
		if err := unpackOne(root, archive, header, name, notes); err != nil {
			return err
		}
	}
}

func unpackOne(root *os.Root, archive *tar.Reader, header *tar.Header, name string, notes io.Writer) error {
	if folder := path.Dir(name); folder != "." {
		if err := root.MkdirAll(folder, 0o777); err != nil {
			return err
		}
	}
	mode := header.FileInfo().Mode().Perm()
	switch header.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, mode|0o700)
	case tar.TypeSymlink:
		if filepath.IsAbs(header.Linkname) || !filepath.IsLocal(path.Join(path.Dir(name), header.Linkname)) {
			_, err := fmt.Fprintf(notes, "left out: %s is a link to %s, outside of what is copied\n", name, header.Linkname)
			return err
		}
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return root.Symlink(header.Linkname, name)
	case tar.TypeLink:
		target := path.Clean(header.Linkname)
		if !filepath.IsLocal(target) {
			return fmt.Errorf("the member sent a link to %q, which leads out of the folder", header.Linkname)
		}
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return root.Link(target, name)
	case tar.TypeReg:
		return writeFile(root, archive, name, mode)
	}
	_, err := fmt.Fprintf(notes, "left out: %s is neither a file nor a folder\n", strings.TrimPrefix(name, "./"))
	return err
}

func writeFile(root *os.Root, content io.Reader, name string, mode fs.FileMode) error {
	file, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
