package mount

import (
	"context"
	"sort"
	"sync"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/tree"
)

// mostAhead is how many chunks are read ahead of one reader, at most: at 1 to 2 MiB
// each more than a network with 20 ms and 400 MB/s has under way.
const mostAhead = 8

// file is an open file.
type file struct {
	entry data.Entry

	mu sync.Mutex
	// pieces and starts are known from the first read on: one that the kernel has in
	// its memory is opened, read and closed without any.
	pieces []data.Piece
	starts []int64
	// piece is the last one that was read, -1 before the first; window is how many
	// behind it were asked for.
	piece, window int
}

// Open implements [fuse.RawFileSystem].
func (s *system) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if in.Flags&syscall.O_ACCMODE != syscall.O_RDONLY {
		return fuse.EROFS
	}
	found, status := s.at(cancel, in.NodeId)
	if !status.Ok() {
		return status
	}
	if found.Kind != tree.File {
		return fuse.EINVAL
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.files[s.last] = &file{entry: found, piece: -1}
	out.Fh, out.OpenFlags = s.last, fuse.FOPEN_KEEP_CACHE|fuse.FOPEN_NOFLUSH
	return fuse.OK
}

// Release implements [fuse.RawFileSystem].
func (s *system) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, in.Fh)
}

// Read implements [fuse.RawFileSystem].
func (s *system) Read(cancel <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	s.mu.Lock()
	f := s.files[in.Fh]
	s.mu.Unlock()
	if f == nil {
		return nil, fuse.EBADF
	}
	ctx := begun(cancel)
	err := persist(ctx, s.patience, func() error { return f.learn(ctx, s.view) })
	var parts [][]byte
	if err == nil {
		parts, err = f.read(ctx, s.chunks, int64(in.Offset), int64(in.Size))
	}
	if err != nil {
		return nil, s.status(f.entry.Path, err)
	}
	switch len(parts) {
	case 0:
		return fuse.ReadResultData(nil), fuse.OK
	case 1:
		return fuse.ReadResultData(parts[0]), fuse.OK
	}
	return fuse.ReadResultVector(parts), fuse.OK
}

// learn finds out of which pieces the file is, once.
func (f *file) learn(ctx context.Context, view *data.View) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.starts != nil {
		return nil
	}
	pieces, err := view.Pieces(ctx, &f.entry)
	if err != nil {
		return err
	}
	starts := make([]int64, len(pieces))
	for i := 1; i < len(pieces); i++ {
		starts[i] = starts[i-1] + pieces[i-1].Size
	}
	f.pieces, f.starts = pieces, starts
	return nil
}

// read is what the file has at an offset, in parts that lie in chunks.
func (f *file) read(ctx context.Context, from *chunks, offset, length int64) (parts [][]byte, err error) {
	end := min(offset+length, f.entry.Size)
	for offset < end {
		i := sort.Search(len(f.starts), func(i int) bool { return f.starts[i] > offset }) - 1
		for _, next := range f.ahead(i) {
			from.prepare(next)
		}
		raw, err := from.get(ctx, f.pieces[i])
		if err != nil {
			return nil, err
		}
		begin := offset - f.starts[i]
		part := raw[begin:min(int64(len(raw)), begin+end-offset)]
		parts = append(parts, part)
		offset += int64(len(part))
	}
	return parts, nil
}

// ahead notes that a piece is read, and says which are to be read ahead: the more
// the longer somebody has gone on from piece to piece. The kernel asks for what is
// near in no particular order.
func (f *file) ahead(i int) []data.Piece {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch i {
	case f.piece, f.piece - 1:
		return nil
	case f.piece + 1:
		f.window = min(2*f.window+1, mostAhead)
	default:
		f.window = 0
	}
	f.piece = i
	return f.pieces[i+1 : min(i+1+f.window, len(f.pieces))]
}
