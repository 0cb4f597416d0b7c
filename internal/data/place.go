package data

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/muster-dev/muster/internal/data/chunk"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/tree"
)

// partial is what the name of a file ends in that is being written.
const partial = ".muster-partial"

func perm(e *tree.Entry) fs.FileMode {
	if e.Executable {
		return 0o777
	}
	return 0o666
}

// span writes small files that lie beside one another.
func (c *checkout) span(ctx context.Context, s *scratch, entries []tree.Entry) error {
	missing := entries[:0]
	for i := range entries {
		e := &entries[i]
		same, err := c.present(filepath.Join(c.dir, e.Path), e, nil)
		if err != nil {
			return err
		}
		if !same {
			missing = append(missing, *e)
		}
	}
	var first, last *pack.Place
	for i := range missing {
		if at := &missing[i].Place; missing[i].Size > 0 {
			if first == nil {
				first = at
			}
			last = at
		}
	}
	var all []byte
	if first != nil {
		all = s.take(int(int64(last.Offset) + int64(last.Stored) - int64(first.Offset)))
		if err := c.store.backend.ReadAt(ctx, first.Pack.Key(), int64(first.Offset), all); err != nil {
			return fmt.Errorf("reading %q: %w", missing[0].Path, damaged(first.Pack.Key(), err))
		}
	}
	for i := range missing {
		e := &missing[i]
		var raw []byte
		if e.Size > 0 {
			at := e.Place.Offset - first.Offset
			var err error
			raw, err = c.unpack(ctx, s, chunk.Piece{ID: e.Content, Size: e.Size, Place: e.Place}, all[at:at+e.Place.Stored])
			if err != nil {
				return fmt.Errorf("reading %q: %w", e.Path, err)
			}
		}
		if err := c.write(e, raw); err != nil {
			return fmt.Errorf("writing %q: %w", e.Path, err)
		}
		c.count(1, e.Size, 0)
	}
	return nil
}

// piece reads one chunk.
func (c *checkout) piece(ctx context.Context, s *scratch, p chunk.Piece) ([]byte, error) {
	if p.Place.Stored > pack.MaxBlob {
		return nil, &CorruptError{Object: p.Place.Pack.Key(), Reason: fmt.Sprintf("a blob of %d bytes is looked for in it", p.Place.Stored)}
	}
	stored := s.take(int(p.Place.Stored))
	if err := c.store.backend.ReadAt(ctx, p.Place.Pack.Key(), int64(p.Place.Offset), stored); err != nil {
		return nil, damaged(p.Place.Pack.Key(), err)
	}
	return c.unpack(ctx, s, p, stored)
}

func (c *checkout) unpack(ctx context.Context, s *scratch, p chunk.Piece, stored []byte) ([]byte, error) {
	raw, err := c.store.unpack(pack.Data, p.ID, p.Place, stored, s.raw)
	if errors.Is(err, pack.ErrDamaged) {
		return c.store.load(ctx, p) // there may be another copy
	}
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) != p.Size {
		return nil, damaged(p.Place.Pack.Key(), fmt.Errorf("a chunk of %d bytes instead of %d: %w", len(raw), p.Size, pack.ErrDamaged))
	}
	if p.Place.Stored < p.Place.Raw {
		s.raw = raw // the buffer that it was decompressed into
	}
	return raw, nil
}

// write writes a small file, in place of whatever is there.
func (c *checkout) write(e *tree.Entry, raw []byte) error {
	path := filepath.Join(c.dir, e.Path)
	err := create(path, raw, perm(e)&^c.mask)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if c.fresh {
		return errors.New("its name is that of another one for this file system, which does not tell them apart: check out on another, or rename one")
	}
	temp := path + partial
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := create(temp, raw, perm(e)&^c.mask); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	c.replaced()
	return nil
}

func create(path string, raw []byte, mode fs.FileMode) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(raw)
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// present says whether a file is there already with its content, which costs no
// look at the store.
func (c *checkout) present(path string, e *tree.Entry, list []chunk.Piece) (bool, error) {
	if c.fresh || !similar(path, e) {
		return false, nil
	}
	if list == nil && e.Size > 0 {
		list = []chunk.Piece{{ID: e.Content, Size: e.Size}}
	}
	same, err := hasContent(path, list)
	if err != nil {
		return false, fmt.Errorf("looking at what is there: %w", err)
	}
	if same {
		c.count(1, e.Size, 1)
	}
	return same, nil
}

// similar says that a file may have an entry's content. Whatever is the matter with
// what else is there, it is written anew.
func similar(path string, e *tree.Entry) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == e.Size && info.Mode()&0o100 != 0 == e.Executable
}

// hasContent compares a file with its chunks.
func hasContent(path string, list []chunk.Piece) (same bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var buf bytes.Buffer
	for _, p := range list {
		buf.Reset()
		if _, err := io.CopyN(&buf, file, p.Size); err != nil {
			if errors.Is(err, io.EOF) {
				return false, nil
			}
			return false, err
		}
		if digest.Of(buf.Bytes()) != p.ID {
			return false, nil
		}
	}
	return true, nil
}

// clear removes what is in the target and was not checked out, folders that are
// empty then included.
func (c *checkout) clear(ctx context.Context) error {
	next, stop := iter.Pull2(c.match.entries(ctx, c.store.trees, c.root))
	defer stop()
	w := &sweeper{checkout: c, next: next}
	if err := w.advance(); err != nil {
		return err
	}
	_, err := w.folder(ctx, "")
	return err
}

// sweeper goes through the target and through what was checked out, side by side.
type sweeper struct {
	*checkout
	next func() (*tree.Entry, error, bool)
	path string // of the next entry that was checked out; empty at the end
}

func (w *sweeper) advance() error {
	for {
		e, err, ok := w.next()
		if err != nil || !ok {
			w.path = ""
			return err
		}
		if strings.HasPrefix(e.Path, w.below) {
			w.path = e.Path[len(w.below):]
			return nil
		}
	}
}

// folder clears a folder, and says whether anything is left in it.
func (w *sweeper) folder(ctx context.Context, rel string) (left bool, err error) {
	entries, err := os.ReadDir(filepath.Join(w.dir, rel))
	if err != nil {
		return false, err
	}
	children := make([]child, len(entries))
	for i, e := range entries {
		children[i] = child{name: e.Name(), key: e.Name(), mode: e.Type()}
		if e.IsDir() {
			children[i].key += "/"
		}
	}
	slices.SortFunc(children, func(a, b child) int { return cmp.Compare(a.key, b.key) })
	for _, ch := range children {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		stays, err := w.child(ctx, rel, ch)
		if err != nil {
			return false, err
		}
		left = left || stays
	}
	return left, nil
}

func (w *sweeper) child(ctx context.Context, rel string, ch child) (stays bool, err error) {
	path := filepath.Join(w.dir, rel, ch.name)
	if ch.mode.IsDir() {
		if stays, err = w.folder(ctx, rel+ch.key); err != nil || stays {
			return stays, err
		}
		return false, os.Remove(path)
	}
	for w.path != "" && w.path < rel+ch.name {
		if err := w.advance(); err != nil {
			return false, err
		}
	}
	if w.path == rel+ch.name {
		return true, nil
	}
	w.result.Removed++
	return false, os.Remove(path)
}
