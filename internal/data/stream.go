package data

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/muster-dev/muster/internal/data/tree"
)

// Tar is a source of what a tar has. It is read once, to its end. Folders are left
// out; hard links, devices and pipes are refused by name.
func Tar(r io.Reader) Source { return &tarSource{in: r} }

type tarSource struct{ in io.Reader }

func (*tarSource) inOrder() bool { return false }

func (s *tarSource) feed(ctx context.Context, f *feed) error {
	in := tar.NewReader(s.in)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the tar: %w", err)
		}
		if err := f.member(ctx, in, h); err != nil {
			return err
		}
	}
}

// member sends one member of a tar.
func (f *feed) member(ctx context.Context, in io.Reader, h *tar.Header) error {
	name := h.Name
	for strings.HasPrefix(name, "./") {
		name = name[2:]
	}
	switch h.Typeflag {
	case tar.TypeDir, tar.TypeXGlobalHeader:
		return nil
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeSymlink:
	case tar.TypeLink:
		return fmt.Errorf("%q in the tar is a hard link: make the tar with --hard-dereference", h.Name)
	default:
		return fmt.Errorf("%q in the tar is neither a file nor a folder nor a symbolic link: leave it out", h.Name)
	}
	it := item{entry: tree.Entry{Path: f.to + name, Kind: tree.File, Executable: h.Mode&0o100 != 0}}
	if err := tree.CheckPath(name); err != nil {
		return fmt.Errorf("in the tar: %w", err)
	}
	if err := tree.CheckPath(it.entry.Path); err != nil {
		return fmt.Errorf("in the tar: %w", err)
	}
	if err := f.find(ctx, &it); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeSymlink {
		if err := tree.CheckTarget(name, h.Linkname); err != nil {
			return fmt.Errorf("in the tar: %w", err)
		}
		it.entry.Kind, it.entry.Executable = tree.Link, false
		it.entry.Target, it.entry.Size = h.Linkname, int64(len(h.Linkname))
		return f.add(ctx, it)
	}
	if h.Size > small {
		return f.whole(ctx, in, &it)
	}
	it.content = make([]byte, h.Size)
	if _, err := io.ReadFull(in, it.content); err != nil {
		return fmt.Errorf("reading %q in the tar: %w", h.Name, err)
	}
	it.entry.Size = h.Size
	return f.add(ctx, it)
}

// whole sends a stream as one file.
func (f *feed) whole(ctx context.Context, in io.Reader, it *item) error {
	if err := f.hint(ctx, it.was); err != nil {
		return err
	}
	if err := f.long(ctx, in); err != nil {
		return fmt.Errorf("reading what is to be %q: %w", it.entry.Path, err)
	}
	return f.finish(ctx, it, false)
}

// find looks for what the dataset had at an item's path. It is no base: the same
// path may come twice, and may have been removed before.
func (f *feed) find(ctx context.Context, it *item) error {
	e, err := f.session.trees.Get(ctx, f.base, it.entry.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	it.was = &e
	return err
}

// AddTar adds what write writes as a tar, while it does. Where both fail, the error is
// write's, which says why.
func (s *Session) AddTar(ctx context.Context, o AddOptions, write func(io.Writer) error) error {
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := write(out)
		done <- err
		out.CloseWithError(err)
	}()
	err := s.Add(ctx, Tar(in), o)
	_ = in.CloseWithError(io.ErrClosedPipe) // ends the writer where the reader gave up
	if wrote := <-done; err == nil || wrote != nil && !errors.Is(wrote, io.ErrClosedPipe) {
		err = wrote
	}
	return err
}

// Stream is a source of one file, at a path, with everything that is read.
func Stream(path string, r io.Reader) Source { return &streamSource{path: path, in: r} }

type streamSource struct {
	path string
	in   io.Reader
}

func (*streamSource) inOrder() bool { return false }

func (s *streamSource) feed(ctx context.Context, f *feed) error {
	it := item{entry: tree.Entry{Path: f.to + s.path, Kind: tree.File}}
	for _, p := range []string{s.path, it.entry.Path} {
		if err := tree.CheckPath(p); err != nil {
			return err
		}
	}
	if err := f.find(ctx, &it); err != nil {
		return err
	}
	return f.whole(ctx, s.in, &it)
}
