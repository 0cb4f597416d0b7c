package source

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
	"path/filepath"
	"strings"
)

// Unpack lays a snapshot out as the new folder dst from a tar that
// [Parcel.WriteTar] wrote: all of it or, on an error, none of it. Nobody on the
// way has to be trusted: what arrived is compared with the digest, wholly, and
// nothing can be written outside dst. The parent of dst must exist; dst itself
// must not: else the error wraps [fs.ErrExist]. What a crash leaves beside dst
// has a name that begins with a dot, and goes when dst is unpacked again.
func Unpack(ctx context.Context, in io.Reader, digest, dst string, limits Limits) error {
	if err := CheckDigest(digest); err != nil {
		return err
	}
	if _, err := os.Lstat(dst); err == nil {
		return fmt.Errorf("unpacking %s: %s: %w", digest, dst, fs.ErrExist)
	}
	if err := wholly(dst, func(temp string) error { return unpackInto(ctx, in, digest, temp, limits) }); err != nil {
		return fmt.Errorf("unpacking %s: %w", digest, err)
	}
	return nil
}

// unpacking is one tar being laid out.
type unpacking struct {
	root   *os.Root
	limits Limits
	tree   tree
	files  int
	bytes  int64
}

func unpackInto(ctx context.Context, in io.Reader, digest, dir string, limits Limits) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	u := &unpacking{root: root, limits: limits.complete(), tree: tree{Version: treeVersion}}
	// 1. Write what comes, and take down what it was.
	archive := tar.NewReader(in)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the archive: %w", err)
		}
		if err := u.entry(h, archive); err != nil {
			return err
		}
	}
	// 2. Is that the snapshot? A tar that was cut off between two entries is
	// another one.
	_, name, err := u.tree.encode()
	if err != nil {
		return err
	}
	if digestPrefix+name != digest {
		return errors.New("what arrived is another snapshot, or a part of this one")
	}
	// 3. Can a folder have these entries?
	if err := u.tree.check(); err != nil {
		return err
	}
	// 4. The folders' own modes.
	return u.tree.close(root)
}

func (u *unpacking) entry(h *tar.Header, content io.Reader) error {
	e := entry{Path: strings.TrimSuffix(h.Name, "/"), Mode: uint32(h.Mode & 0o777)}
	if !safePath(e.Path) {
		return fmt.Errorf("the archive's entry %q is not allowed", h.Name)
	}
	at := filepath.FromSlash(e.Path)
	var err error
	switch h.Typeflag {
	case tar.TypeDir:
		e.Type = typeFolder
		err = u.root.Mkdir(at, 0o700)
	case tar.TypeSymlink:
		e.Type, e.Mode, e.Target = typeLink, 0, h.Linkname
		err = u.root.Symlink(h.Linkname, at)
	case tar.TypeReg:
		e.Type = typeFile
		err = u.file(&e, at, h.Size, content)
	default:
		return fmt.Errorf("the archive's entry %q is of a kind that snapshots do not have", h.Name)
	}
	if err == nil {
		err = checkEntry(&e)
	}
	if err != nil {
		return err
	}
	if len(u.tree.Entries) >= 4*u.limits.MaxFiles {
		return fmt.Errorf("the archive has more than %d entries: %w", 4*u.limits.MaxFiles, ErrTooLarge)
	}
	u.tree.Entries = append(u.tree.Entries, e)
	return nil
}

func (u *unpacking) file(e *entry, at string, size int64, content io.Reader) error {
	u.files++
	if u.bytes += size; u.files > u.limits.MaxFiles || size < 0 || u.bytes > u.limits.MaxBytes {
		return fmt.Errorf("the archive holds more than %d files or %s: %w", u.limits.MaxFiles, FormatBytes(u.limits.MaxBytes), ErrTooLarge)
	}
	out, err := u.root.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	hasher := sha256.New()
	e.Size, err = io.Copy(io.MultiWriter(out, hasher), content)
	if err == nil {
		err = out.Chmod(fs.FileMode(e.Mode))
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", e.Path, err)
	}
	e.Hash = hex.EncodeToString(hasher.Sum(nil))
	return nil
}
