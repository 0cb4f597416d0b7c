package source

import (
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
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-dev/muster/internal/osfile"
)

// ErrDamaged is returned, wrapped, for a snapshot whose content is no longer
// what its name says.
var ErrDamaged = errors.New("damaged on disk")

// Checkout lays the snapshot out as the new folder dst: all of it or, on an
// error or a crash, none of it. Modes and symbolic links are as they were, and
// every byte is checked. The parent of dst must exist; dst itself must not,
// or be an empty folder: else the error wraps [fs.ErrExist].
//
// The copy may be lost with the power: whoever finds one from an earlier boot
// of the machine makes it anew.
func (s *Store) Checkout(ctx context.Context, digest, dst string) error {
	unlock, err := s.share()
	if err != nil {
		return err
	}
	defer unlock()
	t, err := s.readTree(digest)
	if err != nil {
		return err
	}
	s.noteUse(strings.TrimPrefix(digest, digestPrefix), time.Now())
	if err := wholly(dst, func(temp string) error { return t.layOut(ctx, temp, s.copyBlob) }); err != nil {
		return fmt.Errorf("laying out code snapshot %s at %s: %w", digest, dst, err)
	}
	return nil
}

// wholly has a folder filled beside dst, and gives it that name once it is: all
// of it or none. What was begun there before, and never finished, goes first. If
// dst is there, and not empty, the error wraps [fs.ErrExist].
func wholly(dst string, fill func(temp string) error) error {
	if err := removeAbandoned(dst); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(dst), abandonedPrefix(dst))
	if err != nil {
		return full(err)
	}
	defer func() { _ = os.RemoveAll(temp) }()
	hold, err := os.Open(temp)
	if err != nil {
		return err
	}
	defer func() { _ = hold.Close() }()
	if err := osfile.TryLock(hold); err != nil {
		return err
	}
	if err := fill(temp); err != nil {
		return full(err)
	}
	if err := os.Rename(temp, dst); err != nil {
		if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
			return fmt.Errorf("%s: %w", dst, fs.ErrExist)
		}
		return err
	}
	return nil
}

// layOut writes a tree's content into an empty folder; put writes one file, checked.
func (t *tree) layOut(ctx context.Context, dir string, put func(context.Context, *entry, *os.Root) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	// 1. Folders, open to us until all is inside. Each comes behind its parent folder.
	for i := range t.Entries {
		if e := &t.Entries[i]; e.Type == typeFolder {
			if err := root.Mkdir(filepath.FromSlash(e.Path), 0o700); err != nil {
				return full(err)
			}
		}
	}
	// 2. Files.
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for i := range t.Entries {
		e := &t.Entries[i]
		if e.Type != typeFile {
			continue
		}
		group.Go(func() error {
			if err := within.Err(); err != nil {
				return err
			}
			return put(within, e, root)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	// 3. Links, once nothing is written through a path any more.
	for i := range t.Entries {
		if e := &t.Entries[i]; e.Type == typeLink {
			if err := root.Symlink(e.Target, filepath.FromSlash(e.Path)); err != nil {
				return full(err)
			}
		}
	}
	// 4. The folders' own modes.
	return t.close(root)
}

// close gives the folders of a tree that is laid out their own modes, the
// deepest first.
func (t *tree) close(root *os.Root) error {
	for i := len(t.Entries) - 1; i >= 0; i-- {
		if e := &t.Entries[i]; e.Type == typeFolder {
			if err := root.Chmod(filepath.FromSlash(e.Path), fs.FileMode(e.Mode)); err != nil {
				return err
			}
		}
	}
	return root.Chmod(".", 0o755)
}

// copyBlob writes one file and checks its content on the way.
func (s *Store) copyBlob(_ context.Context, e *entry, root *os.Root) error {
	source := s.path(blobsDir, e.Hash)
	in, err := os.Open(source)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the content of %s is missing: %w", e.Path, ErrDamaged)
	}
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	same, err := e.write(in, root)
	if err == nil && !same {
		// Out of the way, so that the next snapshot of the same code mends it.
		_ = os.Remove(source)
		err = e.damaged()
	}
	return err
}

func (e *entry) damaged() error {
	return fmt.Errorf("the content of %s: %w; submit the job again from its folder", e.Path, ErrDamaged)
}

// write writes a file from its content, and reports whether that is what its hash says.
func (e *entry) write(in io.Reader, root *os.Root) (same bool, err error) {
	out, err := root.OpenFile(filepath.FromSlash(e.Path), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false, full(err)
	}
	hasher := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, hasher), in)
	if err == nil {
		err = out.Chmod(fs.FileMode(e.Mode))
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return false, full(err)
	}
	return hex.EncodeToString(hasher.Sum(nil)) == e.Hash, nil
}

// abandonedPrefix begins the names of unfinished checkouts of dst.
func abandonedPrefix(dst string) string { return "." + filepath.Base(dst) + ".checkout-" }

// removeAbandoned removes unfinished checkouts whose maker is gone: a maker
// holds a lock on its folder.
func removeAbandoned(dst string) error {
	entries, err := os.ReadDir(filepath.Dir(dst))
	if err != nil {
		return err
	}
	prefix := abandonedPrefix(dst)
	for _, e := range entries {
		if len(e.Name()) <= len(prefix) || e.Name()[:len(prefix)] != prefix || !e.IsDir() {
			continue
		}
		path := filepath.Join(filepath.Dir(dst), e.Name())
		f, err := os.Open(path)
		if err != nil {
			continue // gone meanwhile
		}
		if osfile.TryLock(f) == nil {
			_ = os.RemoveAll(path)
		}
		_ = f.Close()
	}
	return nil
}
