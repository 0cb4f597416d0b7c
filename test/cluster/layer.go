package cluster

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// layer writes the image's files as a tar.
func (i Image) layer(to io.Writer) error {
	l := layerWriter{out: tar.NewWriter(to), made: map[string]bool{"/": true, ".": true}}
	for _, file := range i.Files {
		if err := l.add(file); err != nil {
			return err
		}
	}
	return l.out.Close()
}

type layerWriter struct {
	out *tar.Writer
	// made are the folders that are in the layer.
	made map[string]bool
}

func (l *layerWriter) add(file File) error {
	if err := l.folder(filepath.Dir(file.To)); err != nil {
		return err
	}
	switch {
	case file.Link != "":
		return l.header(&tar.Header{Typeflag: tar.TypeSymlink, Linkname: file.Link, Mode: 0o777}, file.To)
	case file.From != "":
		return l.tree(file)
	case file.Content != "":
		if err := l.header(&tar.Header{Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(file.Content))}, file.To); err != nil {
			return err
		}
		_, err := io.WriteString(l.out, file.Content)
		return err
	}
	return l.folder(file.To)
}

// folder makes a folder and those above it.
func (l *layerWriter) folder(path string) error {
	if l.made[path] {
		return nil
	}
	if err := l.folder(filepath.Dir(path)); err != nil {
		return err
	}
	l.made[path] = true
	mode := int64(0o755)
	if path == "/tmp" {
		mode = 0o1777
	}
	return l.header(&tar.Header{Typeflag: tar.TypeDir, Mode: mode}, path)
}

func (l *layerWriter) header(header *tar.Header, path string) error {
	header.Name = strings.TrimPrefix(path, "/")
	return l.out.WriteHeader(header)
}

// tree copies a file, or a folder with everything below.
func (l *layerWriter) tree(file File) error {
	return file.walk(func(path, to string, entry fs.DirEntry) error {
		if entry.IsDir() {
			return l.folder(to)
		}
		return l.copy(path, to)
	})
}

// walk visits what the file stands for, with the places where it lies here and
// in the image.
func (f File) walk(visit func(path, to string, entry fs.DirEntry) error) error {
	// What From itself is a link to is meant; links below stay links.
	from, err := filepath.EvalSymlinks(f.From)
	if err != nil {
		return fmt.Errorf("looking for %s: %w", f.From, err)
	}
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if f.Skip != nil && path != from && f.Skip(path, entry) {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		return visit(path, filepath.Join(f.To, strings.TrimPrefix(path, from)), entry)
	})
}

func (l *layerWriter) copy(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if info.Mode().Type() == fs.ModeSymlink {
		link, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return l.header(&tar.Header{Typeflag: tar.TypeSymlink, Linkname: link, Mode: 0o777}, to)
	}
	if !info.Mode().IsRegular() {
		return nil // sockets and devices have no place in an image
	}
	content, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	// In whole seconds, which a tar rounds to: by them Python knows what it has compiled.
	changed := info.ModTime().Truncate(time.Second)
	if err := l.header(&tar.Header{Typeflag: tar.TypeReg, Mode: int64(info.Mode().Perm()), Size: info.Size(), ModTime: changed}, to); err != nil {
		return err
	}
	_, err = io.CopyN(l.out, content, info.Size())
	return err
}
