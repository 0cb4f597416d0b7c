package data

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/muster-dev/muster/internal/data/chunk"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/tree"
)

// AddOptions say how a source is added.
type AddOptions struct {
	// To is the folder of the dataset that the source's paths are below. Default:
	// its root.
	To string
	// Replace removes what is below To and not in the source.
	Replace bool
	// Checksum reads files even if their size, times and inode are those of the
	// last time.
	Checksum bool
	// Progress is told how far it is, if given.
	Progress func(Progress)
}

// Source is where files come from: [Folder], [Tar] or [Stream].
type Source interface {
	// feed sends every file into the feed, in order if it can.
	feed(ctx context.Context, f *feed) error
	// inOrder says that it can.
	inOrder() bool
}

// PutOptions are those of adding and committing.
type PutOptions struct {
	AddOptions
	CommitOptions
}

// Put adds one source to a branch and commits it.
func (d *Dataset) Put(ctx context.Context, branch string, source Source, o PutOptions) (PutResult, error) {
	s, err := d.Begin(ctx, branch, SessionOptions{})
	if err != nil {
		return PutResult{}, err
	}
	if err = s.Add(ctx, source, o.AddOptions); err == nil {
		var result PutResult
		if result, err = s.Commit(ctx, o.CommitOptions); err == nil {
			return result, nil
		}
	}
	return PutResult{}, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
}

// Add adds a source. After an error the session is of no use any more.
func (s *Session) Add(ctx context.Context, source Source, o AddOptions) error {
	if err := s.usable(); err != nil {
		return err
	}
	o.To = strings.Trim(o.To, "/")
	if o.To != "" {
		if err := tree.CheckPath(o.To); err != nil {
			return err
		}
		o.To += "/"
	}
	if err := s.apply(ctx); err != nil {
		return s.fail(err)
	}
	base := s.root
	if o.Replace && !source.inOrder() {
		// Which paths are in the source is known at its end only.
		if _, err := s.Remove(ctx, strings.TrimSuffix(o.To, "/")); err != nil {
			return err
		}
	}
	if err := s.run(ctx, source, o, base); err != nil {
		return s.fail(err)
	}
	return nil
}

// run adds a source, and puts what it changes into the tree.
func (s *Session) run(ctx context.Context, source Source, o AddOptions, base tree.Root) error {
	if err := s.pipe(ctx, source, o, base); err != nil {
		return err
	}
	return s.apply(ctx)
}

// pipe feeds a source through workers into packs and the tree: one goroutine finds
// and reads, as many as there are cores hash and compress, and this one takes what
// they made in the order in which it was found.
func (s *Session) pipe(ctx context.Context, source Source, o AddOptions, base tree.Root) error {
	group, ctx := errgroup.WithContext(ctx) // which ends with the group
	f := &feed{
		session: s, to: o.To, replace: o.Replace && source.inOrder(), checksum: o.Checksum, base: base,
		work: make(chan *job, 2*s.store.workers), order: make(chan *job, 4*s.store.workers), slabs: make(chan []byte, 8*s.store.workers),
	}
	defer func() {
		if f.root != nil {
			_ = f.root.Close()
		}
	}()
	group.Go(func() error {
		defer close(f.order)
		defer close(f.work)
		if err := source.feed(ctx, f); err != nil {
			return err
		}
		return f.flush(ctx)
	})
	for range s.store.workers {
		group.Go(func() error {
			for j := range f.work {
				j.prepare(s.store)
				close(j.done)
			}
			return nil
		})
	}
	group.Go(func() error {
		t := taker{session: s, feed: f, meter: meter{tell: o.Progress}}
		for j := range f.order {
			select {
			case <-j.done:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := t.take(ctx, j); err != nil {
				return err
			}
			f.recycle(j)
		}
		t.done()
		return nil
	})
	return group.Wait()
}

// feed takes files from a source.
type feed struct {
	session  *Session
	root     *os.Root // the folder that files are read in; nil: no folder
	to       string
	replace  bool
	checksum bool
	base     tree.Root
	notes    *notesWriter

	work, order chan *job
	batch       *job
	window      []byte
	slabs       chan []byte
}

// A batch is of so many small files or bytes at most.
const (
	batchFiles = 128
	batchBytes = 2 << 20
	// small is up to which size a file is read as a whole: it is one chunk then.
	small = chunk.Min
)

// job is work for one worker: small files, or one chunk of a long one.
type job struct {
	done  chan struct{}
	items []item
	bytes int64
	slab  []byte

	// raw is a chunk; end, without one, is the file that the chunks before were of.
	raw    []byte
	id     digest.ID
	stored []byte
	end    *item
	// again says that the chunks before are void.
	again bool
	// hints are chunks that are likely to come.
	hints []chunk.Piece
}

// item is one path on its way in.
type item struct {
	// entry is what is known of it; a worker adds the content.
	entry tree.Entry
	// file is the path of the file; a worker reads it as at in the folder in, unless content is set.
	file    string
	in      *os.Root
	at      string
	stamp   stamp
	content []byte
	// base is what is at the path; it stays if the item is the same. was is what was
	// there before, which may have the same content.
	base, was *tree.Entry
	// same says that base stays, remove that it goes.
	same, remove bool
	stored       []byte
	err          error
}

func (f *feed) send(ctx context.Context, j *job) error {
	j.done = make(chan struct{})
	for _, c := range []chan *job{f.order, f.work} {
		select {
		case c <- j:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// add sends a path with its content, or with a small file that has it.
func (f *feed) add(ctx context.Context, it item) error {
	if f.batch == nil {
		f.batch = &job{items: make([]item, 0, batchFiles)}
	}
	f.batch.items = append(f.batch.items, it)
	if !it.same {
		f.batch.bytes += it.entry.Size
	}
	if len(f.batch.items) < batchFiles && f.batch.bytes < batchBytes {
		return nil
	}
	return f.flush(ctx)
}

func (f *feed) flush(ctx context.Context) error {
	if f.batch == nil {
		return nil
	}
	j := f.batch
	f.batch = nil
	read := 0
	for i := range j.items {
		if it := &j.items[i]; it.file != "" && !it.same {
			read += int(it.entry.Size) + 1 // by one byte more it is seen to have grown
		}
	}
	j.slab = f.slab(read)
	return f.send(ctx, j)
}

// slab is room for so many bytes, at most as long as a chunk: an old one if there is
// one, so that a long file is read through memory that is there already.
func (f *feed) slab(size int) []byte {
	if size < chunk.Min/2 {
		return make([]byte, 0, size)
	}
	select {
	case b := <-f.slabs:
		return b
	default:
		return make([]byte, 0, max(size, chunk.Max))
	}
}

func (f *feed) recycle(j *job) {
	b := j.slab
	if j.raw != nil {
		b = j.raw
	}
	if cap(b) < chunk.Max {
		return
	}
	select {
	case f.slabs <- b[:0]:
	default:
	}
}

// taker takes prepared jobs in order.
type taker struct {
	session *Session
	feed    *feed
	meter
	pieces []chunk.Piece
	size   int64
}

func (t *taker) take(ctx context.Context, j *job) error {
	t.Stored = t.session.writer.written()
	switch {
	case j.hints != nil:
		for _, p := range j.hints {
			t.session.writer.remember(p.ID, p.Place)
		}
		return nil
	case j.raw != nil:
		return t.piece(ctx, j)
	case j.again:
		t.pieces, t.Bytes = t.pieces[:0], t.Bytes-t.size
		t.size = 0
		return nil
	case j.end != nil:
		return t.end(ctx, j.end)
	}
	for i := range j.items {
		if err := t.item(ctx, &j.items[i]); err != nil {
			return err
		}
	}
	return nil
}

// piece takes one chunk of a long file.
func (t *taker) piece(ctx context.Context, j *job) error {
	w := t.session.writer
	at, ok, err := w.find(ctx, j.id, len(j.raw))
	if err == nil && !ok {
		at, err = w.put(pack.Data, j.id, len(j.raw), j.stored)
	}
	if err != nil {
		return err
	}
	t.pieces = append(t.pieces, chunk.Piece{ID: j.id, Size: int64(len(j.raw)), Place: at})
	t.size += int64(len(j.raw))
	t.add(0, int64(len(j.raw)))
	return nil
}

// end takes a long file whose chunks have been taken.
func (t *taker) end(ctx context.Context, it *item) error {
	e := it.entry
	e.Size = t.size
	switch {
	case len(t.pieces) == 1:
		e.Content, e.Place = t.pieces[0].ID, t.pieces[0].Place
	case len(t.pieces) > 1:
		id, list := chunk.EncodeList(t.pieces)
		at, err := t.session.writer.Save(ctx, pack.List, id, len(list), t.session.writer.Compress(list))
		if err != nil {
			return err
		}
		e.Content, e.Place, e.List = id, at, true
	}
	t.pieces, t.size = t.pieces[:0], 0
	it.entry = e
	t.add(1, 0)
	t.feed.notes.add(it)
	if e.Same(it.base) {
		return nil
	}
	return t.session.set(ctx, tree.Edit{Path: e.Path, Entry: &e})
}

// item takes a small file, a link or a removal.
func (t *taker) item(ctx context.Context, it *item) error {
	switch {
	case it.err != nil:
		return it.err
	case it.remove:
		return t.session.set(ctx, tree.Edit{Path: it.entry.Path})
	}
	t.add(1, it.entry.Size)
	t.feed.notes.add(it)
	if it.same {
		return nil
	}
	if it.stored != nil {
		w := t.session.writer
		at, ok, err := w.find(ctx, it.entry.Content, len(it.content))
		if err == nil && !ok {
			at, err = w.put(pack.Data, it.entry.Content, len(it.content), it.stored)
		}
		if err != nil {
			return fmt.Errorf("storing %q: %w", it.entry.Path, err)
		}
		it.entry.Place = at
	}
	e := it.entry
	return t.session.set(ctx, tree.Edit{Path: e.Path, Entry: &e})
}
