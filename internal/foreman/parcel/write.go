package parcel

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// end is the last entry of a parcel: without it something is missing.
const end = "end"

// Write sends what lies in a folder under these names; a name that is not there
// is left out. Files that change meanwhile are an error.
func Write(to io.Writer, folder string, names ...string) error {
	return WriteWith(to, nil, folder, names...)
}

// WriteWith sends the same, and before it files of these names with these texts.
func WriteWith(to io.Writer, texts map[string]string, folder string, names ...string) error {
	out := tar.NewWriter(to)
	for name, text := range texts {
		err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(text)), Mode: 0o600})
		if err == nil {
			_, err = io.WriteString(out, text)
		}
		if err != nil {
			return fmt.Errorf("sending %s: %w", name, err)
		}
	}
	for _, name := range names {
		if err := writeAll(out, folder, name); err != nil {
			return fmt.Errorf("sending %s: %w", name, err)
		}
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: end, Mode: 0o600}); err != nil {
		return fmt.Errorf("ending a parcel: %w", err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("ending a parcel: %w", err)
	}
	return nil
}

// Size is how many bytes of a disk what lies in a folder under these names may need
// where it is laid out.
func Size(folder string, names ...string) (all int64, err error) {
	for _, name := range names {
		err := filepath.WalkDir(filepath.Join(folder, name), func(_ string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			size := int64(0)
			if info.Mode().IsRegular() {
				size = info.Size()
			}
			all += needs(size)
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf("looking how large %s is: %w", name, err)
		}
	}
	return all + needs(0), nil // the end
}

func writeAll(out *tar.Writer, folder, name string) error {
	top := filepath.Join(folder, name)
	if _, err := os.Lstat(top); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := name + strings.TrimPrefix(path, top)
		switch {
		case e.IsDir():
			return out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: at + "/", Mode: 0o755})
		case e.Type().IsRegular():
			return writeFile(out, at, path)
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return out.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: at, Linkname: target})
		}
		return fmt.Errorf("%s is neither a file, a folder nor a link", at)
	})
}

func writeFile(out *tar.Writer, name, path string) (err error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: int64(info.Mode().Perm())}); err != nil {
		return err
	}
	// A log may still grow by what a program left behind.
	if _, err := io.CopyN(out, file, info.Size()); err != nil {
		return fmt.Errorf("reading %s, which had %d bytes: %w", name, info.Size(), err)
	}
	return nil
}
