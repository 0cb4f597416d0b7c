package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sort"
	"sync"

	"github.com/muster-dev/muster/internal/data/chunk"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/tree"
)

// pieces are the chunks of a file.
func pieces(ctx context.Context, from tree.Loader, e *tree.Entry) ([]chunk.Piece, error) {
	switch {
	case e.Size == 0 || e.Kind != tree.File:
		return nil, nil
	case !e.List:
		return []chunk.Piece{{ID: e.Content, Size: e.Size, Place: e.Place}}, nil
	}
	blob, err := from.Load(ctx, pack.List, e.Content, e.Place)
	if err == nil {
		var list []chunk.Piece
		if list, err = chunk.DecodeList(e.Content, blob, e.Size); err == nil {
			return list, nil
		}
		err = damaged(e.Place.Pack.Key(), err)
	}
	return nil, fmt.Errorf("reading %q: %w", e.Path, err)
}

// openChunks is how many chunks of a file are kept while it is open.
const openChunks = 3

// File is an open file of a commit. ReadAt may be called by many at once; Read and
// Seek are for one goroutine. Each chunk is checked as a whole before any of its
// bytes are served.
type File struct {
	ctx    context.Context // of Open: io.Reader has no place for one
	store  *Store
	entry  tree.Entry
	pieces []chunk.Piece
	starts []int64
	offset int64

	mu     sync.Mutex
	chunks []openChunk // the last used first
}

type openChunk struct {
	piece int
	raw   []byte
}

func (s *Store) open(ctx context.Context, e *tree.Entry) (*File, error) {
	list, err := pieces(ctx, blobs{s}, e)
	if err != nil {
		return nil, err
	}
	f := &File{ctx: ctx, store: s, entry: *e, pieces: list, starts: make([]int64, len(list))}
	for i := 1; i < len(list); i++ {
		f.starts[i] = f.starts[i-1] + list[i-1].Size
	}
	return f, nil
}

// Entry is what the file is.
func (f *File) Entry() tree.Entry { return f.entry }

// Size is its length in bytes.
func (f *File) Size() int64 { return f.entry.Size }

// Read implements io.Reader.
func (f *File) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p[:min(int64(len(p)), max(f.entry.Size-f.offset, 0))], f.offset)
	f.offset += int64(n)
	if n == 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return n, err
}

// Seek implements io.Seeker.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.offset
	case io.SeekEnd:
		offset += f.entry.Size
	}
	if offset < 0 {
		return 0, fmt.Errorf("seeking in %q: there is nothing before its beginning", f.entry.Path)
	}
	f.offset = offset
	return offset, nil
}

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, fmt.Errorf("reading %q: there is nothing before its beginning", f.entry.Path)
	}
	n := 0
	for n < len(p) && offset < f.entry.Size {
		i := sort.Search(len(f.starts), func(i int) bool { return f.starts[i] > offset }) - 1
		raw, err := f.chunk(i)
		if err != nil {
			return n, fmt.Errorf("reading %q: %w", f.entry.Path, err)
		}
		got := copy(p[n:], raw[offset-f.starts[i]:])
		n, offset = n+got, offset+int64(got)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// chunk is one chunk, of those that are kept or read.
func (f *File) chunk(i int) ([]byte, error) {
	f.mu.Lock()
	for k, c := range f.chunks {
		if c.piece == i {
			copy(f.chunks[1:k+1], f.chunks[:k])
			f.chunks[0] = c
			f.mu.Unlock()
			return c.raw, nil
		}
	}
	f.mu.Unlock()
	raw, err := f.store.load(f.ctx, f.pieces[i])
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.chunks = slices.Insert(f.chunks, 0, openChunk{piece: i, raw: raw})
	f.chunks = f.chunks[:min(len(f.chunks), openChunks)]
	return raw, nil
}

// Close gives back what the file holds.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.chunks = nil
	return nil
}

var errLink = errors.New("it is a symbolic link: open what it leads to")

// Open opens a file. Reads go on as long as the context lives.
func (v *View) Open(ctx context.Context, path string) (*File, error) {
	e, err := v.Stat(ctx, path)
	if err != nil {
		return nil, err
	}
	switch e.Kind {
	case tree.Link:
		return nil, fmt.Errorf("opening %q: %w: %q", path, errLink, e.Target)
	case tree.Folder:
		return nil, fmt.Errorf("opening %q: it is a folder: name a file in it: %w", path, fs.ErrInvalid)
	}
	return v.store.open(ctx, &e)
}
