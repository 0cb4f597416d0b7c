package parcel

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/muster-dev/muster/internal/osfile"
)

// end is the last entry of a parcel: without it something is missing.
const end = "end"

// Write sends what lies in a folder under these names; a name that is not there
// is left out. Files that change meanwhile are an error. Programs may write to the folder:
// no link in it is followed, and nothing but files, folders and links is sent.
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
	root, err := os.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("opening the folder of a parcel: %w", err)
	}
	defer func() { _ = root.Close() }()
	for _, name := range names {
		if err := writeAll(out, root, name); err != nil {
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
	root, err := os.OpenRoot(folder)
	if err != nil {
		return 0, fmt.Errorf("opening the folder of a parcel: %w", err)
	}
	defer func() { _ = root.Close() }()
	for _, name := range names {
		err := each(root, name, func(_ string, _ *os.Root, e fs.DirEntry) error {
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
		if err != nil {
			return 0, fmt.Errorf("looking how large %s is: %w", name, err)
		}
	}
	return all + needs(0), nil // the end
}

// each calls visit for one entry of a folder, if it exists, and for everything below it.
func each(root *os.Root, name string, visit func(path string, in *os.Root, e fs.DirEntry) error) error {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = visit(name, root, fs.FileInfoToDirEntry(info))
	}
	if err != nil || !info.IsDir() {
		return err
	}
	folder, err := osfile.OpenFolder(root, name)
	if err != nil {
		return err
	}
	err = osfile.Walk(folder, func(path string, in *os.Root, e fs.DirEntry) error { return visit(name+"/"+path, in, e) })
	return errors.Join(err, folder.Close())
}

func writeAll(out *tar.Writer, root *os.Root, name string) error {
	return each(root, name, func(at string, in *os.Root, e fs.DirEntry) error {
		switch {
		case e.IsDir():
			return out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: at + "/", Mode: 0o755})
		case e.Type().IsRegular():
			return writeFile(out, at, in, e.Name())
		case e.Type()&fs.ModeSymlink != 0:
			target, err := in.Readlink(e.Name())
			if err != nil {
				return err
			}
			return out.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: at, Linkname: target})
		}
		return fmt.Errorf("%s is neither a file, a folder nor a link", at)
	})
}

func writeFile(out *tar.Writer, at string, in *os.Root, name string) (err error) {
	file, err := osfile.OpenRegular(in, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: at, Size: info.Size(), Mode: int64(info.Mode().Perm())}); err != nil {
		return err
	}
	// A log may still grow by what a program left behind.
	if _, err := io.CopyN(out, file, info.Size()); err != nil {
		return fmt.Errorf("reading %s, which had %d bytes: %w", at, info.Size(), err)
	}
	return nil
}
