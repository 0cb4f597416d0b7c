package bundle

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/muster-dev/muster/internal/osfile"
)

// Pack packs the environment in a folder into the new file at path. Nobody may
// write to the folder any more. The error wraps [fs.ErrNotExist] where the folder
// has no note.
func Pack(ctx context.Context, folder, path string) (Packed, error) {
	note, err := ReadNote(folder)
	if err != nil {
		return Packed{}, err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return Packed{}, fmt.Errorf("packing the environment: %w", err)
	}
	defer func() { _ = root.Close() }()
	out, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return Packed{}, fmt.Errorf("packing the environment: %w", err)
	}
	hasher := sha256.New()
	p := &packing{root: root, out: tar.NewWriter(io.MultiWriter(out, hasher))}
	err = errors.Join(p.all(ctx), p.out.Close())
	size, failed := out.Seek(0, io.SeekEnd)
	if err = errors.Join(err, failed, out.Close()); err != nil {
		return Packed{}, fmt.Errorf("packing the environment: %w", err)
	}
	return Packed{Note: note, Hash: hex.EncodeToString(hasher.Sum(nil)), Size: size}, nil
}

// packing is one folder being packed.
type packing struct {
	root *os.Root
	out  *tar.Writer
	size int64
}

func (p *packing) all(ctx context.Context) error {
	return osfile.Walk(p.root, func(name string, in *os.Root, e fs.DirEntry) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return p.entry(name, in, e)
	})
}

func (p *packing) entry(name string, in *os.Root, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return err
	}
	h := &tar.Header{Name: name, Mode: 0o755, ModTime: info.ModTime().Truncate(time.Second), Format: tar.FormatPAX}
	switch {
	case e.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
	case e.Type() == fs.ModeSymlink:
		h.Typeflag, h.Mode = tar.TypeSymlink, 0o777
		if h.Linkname, err = in.Readlink(e.Name()); err != nil {
			return err
		}
	case e.Type().IsRegular():
		return p.file(h, in, info)
	default:
		return fmt.Errorf("%s is neither a file, a folder nor a link", name)
	}
	return p.out.WriteHeader(h)
}

func (p *packing) file(h *tar.Header, folder *os.Root, info fs.FileInfo) error {
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if info.Mode()&0o111 == 0 {
		h.Mode = 0o644
	}
	if p.size += h.Size; p.size > MaxBytes {
		return fmt.Errorf("at %s it has more than %d GiB", h.Name, MaxBytes>>30)
	}
	if err := p.out.WriteHeader(h); err != nil {
		return err
	}
	in, err := osfile.OpenRegular(folder, info.Name())
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if _, err := io.CopyN(p.out, in, h.Size); err != nil {
		return fmt.Errorf("reading %s: %w", h.Name, err)
	}
	return nil
}
