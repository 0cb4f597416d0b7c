package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/muster-dev/muster/internal/data/chunk"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/tree"
	"github.com/muster-dev/muster/internal/osfile"
)

// readTries is how often a file is read that changes meanwhile.
const readTries = 3

// prepare is what a worker does: everything that needs no order.
func (j *job) prepare(s *Store) {
	if j.raw != nil {
		j.id = digest.Of(j.raw)
		j.stored = s.codec.Encode(j.raw, nil)
		return
	}
	for i := range j.items { // none where it is the end of a long file
		it := &j.items[i]
		if it.same || it.remove || it.err != nil {
			continue
		}
		if it.file != "" {
			if it.err = it.read(s, j); it.err != nil {
				continue
			}
		}
		it.name(s)
	}
}

// name finds out what the content is called, and compresses it if it is new.
func (it *item) name(s *Store) {
	e := &it.entry
	if len(it.content) > 0 && (it.file != "" || e.Content.IsZero()) { // what a file had may be noted
		e.Content = digest.Of(it.content)
	}
	switch {
	case e.Same(it.base):
		it.same = true
	case len(it.content) == 0:
	case it.was != nil && it.was.Content == e.Content:
		e.Place, it.stored = it.was.Place, nil
	case it.stored == nil:
		it.stored = s.codec.Encode(it.content, nil)
	}
}

// read reads a small file into the job's slab. A file that changes meanwhile is
// read again.
func (it *item) read(s *Store, j *job) error {
	for range readTries {
		stable, err := it.readOnce(s, j)
		if err != nil {
			return fmt.Errorf("reading %s: %w", it.file, err)
		}
		if stable {
			return nil
		}
	}
	return changing(it.file)
}

func changing(file string) error {
	return fmt.Errorf("reading %s: it changes while it is read, %d times: wait until nobody writes to it", file, readTries)
}

func (it *item) readOnce(s *Store, j *job) (stable bool, err error) {
	file, before, err := s.opened(it.in, it.at)
	if err != nil {
		return false, unlessChanged(err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size := int(before.size)
	if size > small {
		return false, nil // it has grown: changes
	}
	var buf []byte
	if n := len(j.slab); cap(j.slab)-n > size {
		buf = j.slab[n : n+size+1 : n+size+1]
	} else {
		buf = make([]byte, size+1)
	}
	n, err := io.ReadFull(file, buf) // one more than there is: it may grow
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	after, err := stampOf(file)
	if err != nil || n != size || after != before {
		return false, err
	}
	if cap(j.slab)-len(j.slab) > size {
		j.slab = j.slab[:len(j.slab)+size]
	}
	it.content, it.stamp = buf[:n:n], after
	it.entry.Size, it.entry.Executable = int64(n), after.executable()
	return true, nil
}

// openFile opens what is a regular file: not a link to one, and without waiting for
// whoever writes to a pipe.
func openFile(in *os.Root, name string) (*os.File, stamp, error) {
	file, err := osfile.OpenRegular(in, name)
	if err != nil {
		return nil, stamp{}, err
	}
	st, err := stampOf(file)
	if err != nil {
		return nil, stamp{}, errors.Join(err, file.Close())
	}
	return file, st, nil
}

// unlessChanged returns an error, and nil if a file was replaced while it was opened.
func unlessChanged(err error) error {
	if errors.Is(err, osfile.ErrChanged) {
		return nil
	}
	return err
}

// windowSize is how much of a long file is read ahead.
const windowSize = 16 << 20

// long sends a stream in chunks, without its end.
func (f *feed) long(ctx context.Context, r io.Reader) error {
	if err := f.flush(ctx); err != nil {
		return err
	}
	if f.window == nil {
		f.window = make([]byte, windowSize)
	}
	from, to, ended := 0, 0, false
	for {
		if !ended && to-from < chunk.Max {
			to = copy(f.window, f.window[from:to])
			from = 0
			n, err := io.ReadFull(r, f.window[to:])
			to += n
			switch {
			case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
				ended = true
			case err != nil:
				return err
			}
		}
		if from == to {
			return nil
		}
		n := chunk.Cut(f.window[from:to])
		raw := append(f.slab(n), f.window[from:from+n]...)
		if err := f.send(ctx, &job{raw: raw}); err != nil {
			return err
		}
		from += n
	}
}

// hint has the chunks of what was at a path before found without asking the store.
func (f *feed) hint(ctx context.Context, was *tree.Entry) error {
	if was == nil || was.Kind != tree.File || was.Size == 0 {
		return nil
	}
	pieces, err := pieces(ctx, f.session.writer, was)
	if err != nil {
		return err
	}
	if err := f.flush(ctx); err != nil {
		return err
	}
	return f.send(ctx, &job{hints: pieces})
}

// finish sends the end of a long file, or that its chunks are void.
func (f *feed) finish(ctx context.Context, it *item, again bool) error {
	return f.send(ctx, &job{end: it, again: again})
}
