package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/muster-dev/muster/internal/data/chunk"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/tree"
)

// span writes small files that lie beside one another.
func (c *checkout) span(ctx context.Context, s *scratch, entries []tree.Entry) error {
	missing := entries[:0]
	for i := range entries {
		e := &entries[i]
		same, err := c.present(e, nil)
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
		replaced, err := c.to.Write(onDisk(e), raw)
		if err != nil {
			return fmt.Errorf("writing %q: %w", e.Path, err)
		}
		if replaced {
			c.replaced(1)
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

// present says whether a file is there already with its content, which costs no
// look at the store.
func (c *checkout) present(e *tree.Entry, list []chunk.Piece) (same bool, err error) {
	file := c.to.Candidate(onDisk(e))
	if file == nil {
		return false, nil
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if list == nil && e.Size > 0 {
		list = []chunk.Piece{{ID: e.Content, Size: e.Size}}
	}
	if same, err = hasContent(file, list); err != nil {
		return false, fmt.Errorf("looking at what is there: %w", err)
	}
	if same {
		c.count(1, e.Size, 1)
	}
	return same, nil
}

// hasContent compares a file with its chunks.
func hasContent(file io.Reader, list []chunk.Piece) (bool, error) {
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
func (c *checkout) clear(ctx context.Context) (err error) {
	next, stop := iter.Pull2(c.match.Entries(ctx, c.store.trees, c.root))
	defer stop()
	c.result.Removed, err = c.to.Sweep(ctx, func() (string, error) {
		for {
			e, err, ok := next()
			if err != nil || !ok {
				return "", err
			}
			if strings.HasPrefix(e.Path, c.below) {
				return e.Path[len(c.below):], nil
			}
		}
	})
	return err
}
