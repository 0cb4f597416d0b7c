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

	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/data/worktree"
	"github.com/muster-dev/muster/internal/osfile"
)

// pack writes a local file or folder as a tar whose top is called name.
func pack(ctx context.Context, out io.Writer, local, name string) error {
	archive := tar.NewWriter(out)
	local, err := absolute(local)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(filepath.Dir(local))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	base := filepath.Base(local)
	if local == filepath.Dir(local) {
		base = "." // of a whole disk
	}
	if err := packAll(ctx, archive, root, base, name); err != nil {
		return err
	}
	return archive.Close()
}

// absolute makes a path absolute. If the path ends in a slash, it follows a link to a folder.
func absolute(local string) (string, error) {
	whole, err := filepath.Abs(local)
	if err == nil && strings.HasSuffix(filepath.ToSlash(local), "/") {
		return filepath.EvalSymlinks(whole)
	}
	return whole, err
}

// packAll writes a file, a link, or a folder with its files, by its name in the folder above.
// Another process may change the folder meanwhile: packAll follows no link then.
func packAll(ctx context.Context, archive *tar.Writer, root *os.Root, base, name string) error {
	info, err := root.Lstat(base)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return packOne(archive, root, base, name, info)
	}
	folder, err := osfile.OpenFolder(root, base)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	if err := packOne(archive, root, base, name, info); err != nil {
		return err
	}
	return osfile.Walk(folder, func(at string, in *os.Root, e fs.DirEntry) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		info, err := in.Lstat(e.Name())
		if err != nil {
			return err
		}
		return packOne(archive, in, e.Name(), path.Join(name, at), info)
	})
}

func packOne(archive *tar.Writer, in *os.Root, base, name string, info fs.FileInfo) (err error) {
	link := ""
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		if link, err = in.Readlink(base); err != nil {
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
	file, err := osfile.OpenRegular(in, base)
	if err != nil {
		return err
	}
	_, err = io.CopyN(archive, file, info.Size())
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("reading %s, which had %d bytes: %w", name, info.Size(), osfile.ErrChanged)
	}
	return errors.Join(err, file.Close())
}

// unpack writes the files of a tar below folder, which is made where missing.
// Its only file is called rename where that is not empty. Nothing is ever
// written outside of folder, whatever the archive names; links that lead out
// of it, over others too, are left out, and said on notes.
func unpack(in io.Reader, folder, rename string, notes io.Writer) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	u := &unpacking{root: root, archive: tar.NewReader(in), notes: notes, made: map[string]string{}}
	for {
		header, err := u.archive.Next()
		if errors.Is(err, io.EOF) {
			if err := u.link(); err != nil {
				return err
			}
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
		if err := u.one(header, name); err != nil {
			return err
		}
	}
}

// unpacking is one tar being unpacked.
type unpacking struct {
	root    *os.Root
	archive *tar.Reader
	notes   io.Writer
	// links are made at the end, so that no file of the member is written through a link.
	links []link
	// made are the names of the written files, by their names on a file system that ignores case.
	made map[string]string
}

type link struct{ name, target string }

// one unpacks one entry.
func (u *unpacking) one(header *tar.Header, name string) error {
	if folder := path.Dir(name); folder != "." {
		if err := u.folder(folder, 0o777); err != nil {
			return err
		}
	}
	mode := header.FileInfo().Mode().Perm()
	switch header.Typeflag {
	case tar.TypeDir:
		return u.folder(name, mode|0o700)
	case tar.TypeSymlink:
		if err := tree.CheckTarget(name, header.Linkname); err != nil {
			return u.leaveOut(name, header.Linkname)
		}
		u.links = append(u.links, link{name, header.Linkname})
		return nil
	case tar.TypeLink:
		target := path.Clean(header.Linkname)
		if !filepath.IsLocal(target) {
			return fmt.Errorf("the member sent a link to %q, which leads out of the folder", header.Linkname)
		}
		if err := u.clear(name, "a file"); err != nil {
			return err
		}
		return u.root.Link(target, name)
	case tar.TypeReg:
		return u.file(name, mode)
	}
	_, err := fmt.Fprintf(u.notes, "left out: %s is neither a file nor a folder\n", strings.TrimPrefix(name, "./"))
	return err
}

func (u *unpacking) leaveOut(name, target string) error {
	_, err := fmt.Fprintf(u.notes, "left out: %s is a link to %s, outside of the copied folder\n", name, target)
	return err
}

// clear removes the file, the link or the empty folder of a name, to make room for an entry of a kind.
// It fails for other folders.
func (u *unpacking) clear(name, kind string) error {
	err := u.root.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if info, failed := u.root.Lstat(name); failed == nil && info.IsDir() {
		return fmt.Errorf("%q is %s in the copy, and a folder that is not empty in %s: cp replaces files, links and empty folders alone; remove that folder, or copy to another one", name, kind, u.root.Name())
	}
	return err
}

// folder makes a folder, and those above it. A link to a folder within may stand for each of them.
func (u *unpacking) folder(name string, mode fs.FileMode) error {
	err := u.root.MkdirAll(name, mode)
	if err == nil {
		return nil
	}
	for i := range len(name) + 1 {
		if i < len(name) && name[i] != '/' {
			continue
		}
		info, failed := u.root.Stat(name[:i])
		switch {
		case osfile.Escapes(failed):
			return fmt.Errorf("%q is a folder in the copy, and a link out of the folder in %s: cp writes through no such link; remove the link, or copy to another folder", name[:i], u.root.Name())
		case failed == nil && !info.IsDir():
			return fmt.Errorf("%q is a folder in the copy, and %s in %s: cp replaces no file by a folder; remove it, or copy to another folder", name[:i], osfile.Kind(info.Mode()), u.root.Name())
		}
	}
	return err
}

// link makes the links. If a link leads out of the folder over another link, link removes it again. The
// other link may be older than the copy.
func (u *unpacking) link() error {
	for _, l := range u.links {
		if err := u.clear(l.name, "a link"); err != nil {
			return err
		}
		if err := u.root.Symlink(l.target, l.name); err != nil {
			return err
		}
	}
	for _, l := range u.links {
		if _, err := u.root.Stat(l.name); !osfile.Escapes(err) {
			continue
		}
		if err := errors.Join(u.root.Remove(l.name), u.leaveOut(l.name, l.target)); err != nil {
			return err
		}
	}
	return nil
}

// file writes a file, and replaces an older file or link of its name. Other names of the older
// file, and the target of the link, keep their content.
func (u *unpacking) file(name string, mode fs.FileMode) error {
	folded := worktree.Fold(name)
	if before, known := u.made[folded]; known && before != name {
		if _, err := u.root.Lstat(name); err == nil {
			return fmt.Errorf("%q and %q are one name for this file system: copy to another one", before, name)
		}
	}
	u.made[folded] = name
	if err := u.clear(name, "a file"); err != nil {
		return err
	}
	file, err := osfile.CreateRegular(u.root, name, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, u.archive)
	return errors.Join(err, file.Close())
}
