package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"time"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/bale"
	"github.com/muster-dev/muster/internal/data/blobindex"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/holder"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/tree"
)

// Options say where a store is, and what may be used for it.
type Options struct {
	// Backend keeps the bytes. It has to be given. Small packs are put together by
	// collections where it knows bales ([bale.Over]).
	Backend backend.Backend
	// Cache is a folder of this machine for notes of which files were put; it may
	// be removed at any time. Default: none, so that every put reads every file.
	Cache string
	// Workers is how many cores hash and compress. Default: all that there are.
	Workers int
	// LeaseTTL is after which time without a word somebody who writes or reads is
	// taken for dead. Default: 15 minutes.
	LeaseTTL time.Duration
	// Clock gives commits their times. Default: [time.Now].
	Clock func() time.Time
	// Room returns an error if the store may not grow by so many bytes of content, because its disk is
	// almost full. Removals go on. Default: there is always room.
	Room func(more int64) error
}

// Store keeps the bytes of any number of datasets. It may be used by many at once,
// and any number of stores may be open on one backend.
type Store struct {
	backend backend.Backend
	cache   string
	workers int
	ttl     time.Duration
	clock   func() time.Time
	// slack is by how much times of the backend may be wrong: S3 gives seconds.
	slack time.Duration
	// joining says which packs a collection puts together.
	joining joining
	// holder is this process, for its leases.
	holder holder.Holder
	// room returns an error if the store may not grow by so many bytes.
	room func(more int64) error
	// lastRequest is the longest time that the API server needs for the last request of a process that
	// has ended.
	lastRequest time.Duration
	// opened opens a file that is to be put; tests have it change at once.
	opened func(in *os.Root, name string) (*os.File, stamp, error)
	codec  *pack.Codec
	nodes  tree.Cache
	// indices are of packs that any session has asked.
	indices blobindex.Cache
	// buffers are for the packs of all sessions.
	buffers buffers
	trees   *tree.Tree
}

// lastRequest is longer than etcd waits for the disk.
const lastRequest = 5 * time.Second

// Open opens a store. Nothing is read of it yet.
func Open(_ context.Context, o Options) (*Store, error) {
	if o.Backend == nil {
		return nil, errors.New("opening a store: it has no backend: give a folder, a bucket or memory")
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.LeaseTTL <= 0 {
		o.LeaseTTL = 15 * time.Minute
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Room == nil {
		o.Room = func(int64) error { return nil }
	}
	codec, err := pack.NewCodec(o.Workers + 1)
	if err != nil {
		return nil, err
	}
	s := &Store{
		backend: o.Backend, joining: usualJoining, cache: o.Cache, workers: o.Workers, ttl: o.LeaseTTL, clock: o.Clock,
		slack: 2 * time.Second, codec: codec, opened: openFile, holder: holder.Self(), room: o.Room, lastRequest: lastRequest,
	}
	s.trees = tree.New(blobs{s}, &s.nodes)
	return s, nil
}

// Close gives back what the store holds of this process.
func (s *Store) Close() error { return s.codec.Close() }

// CorruptError says that an object is not what it was when it was stored, or is
// not there any more. None of its bytes are served.
type CorruptError struct {
	// Object is the key of the object.
	Object string
	// Reason is what is wrong with it.
	Reason string
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("object %s is damaged: %s: restore it from a copy; muster data verify shows what else is", e.Object, e.Reason)
}

// Unwrap makes it a [pack.ErrDamaged].
func (e *CorruptError) Unwrap() error { return pack.ErrDamaged }

// damaged names the object of an error that says that it is damaged.
func damaged(key string, err error) error {
	if errors.Is(err, pack.ErrDamaged) || errors.Is(err, backend.ErrShort) || errors.Is(err, fs.ErrNotExist) {
		return &CorruptError{Object: key, Reason: err.Error()}
	}
	return err
}

// blobs reads the blobs of a store.
type blobs struct{ *Store }

// Load implements [tree.Loader].
func (b blobs) Load(ctx context.Context, kind pack.Kind, id digest.ID, at pack.Place) ([]byte, error) {
	if at.Stored > pack.MaxBlob {
		return nil, &CorruptError{Object: at.Pack.Key(), Reason: fmt.Sprintf("a blob of %d bytes is looked for in it", at.Stored)}
	}
	raw, err := b.loadOnce(ctx, kind, id, at)
	if errors.Is(err, pack.ErrDamaged) && backend.Doubt(b.backend, at.Pack.Key(), int64(at.Offset), int64(at.Stored)) {
		raw, err = b.loadOnce(ctx, kind, id, at) // it was a copy that was damaged
	}
	if corrupt := (*CorruptError)(nil); errors.As(err, &corrupt) {
		if in := bale.In(b.backend, at.Pack.Key()); in != "" {
			err = &CorruptError{Object: corrupt.Object, Reason: corrupt.Reason + "; it is in " + in}
		}
	}
	return raw, err
}

func (b blobs) loadOnce(ctx context.Context, kind pack.Kind, id digest.ID, at pack.Place) ([]byte, error) {
	stored := make([]byte, at.Stored)
	if err := b.backend.ReadAt(ctx, at.Pack.Key(), int64(at.Offset), stored); err != nil {
		return nil, damaged(at.Pack.Key(), err)
	}
	return b.unpack(kind, id, at, stored, nil)
}

// unpack is the blob of stored bytes, checked; it may be written into buf.
func (s *Store) unpack(kind pack.Kind, id digest.ID, at pack.Place, stored, buf []byte) ([]byte, error) {
	raw, err := s.codec.Decode(at, stored, buf)
	if err == nil {
		err = pack.Check(id, kind, raw)
	}
	if err != nil {
		return nil, damaged(at.Pack.Key(), fmt.Errorf("%d bytes at %d: %w", at.Stored, at.Offset, err))
	}
	return raw, nil
}

// Progress is how far something is. Totals are 0 as long as they are not known.
type Progress struct {
	Files, Bytes           int64
	TotalFiles, TotalBytes int64
	// Stored is how many bytes were really written.
	Stored int64
}

// meter counts, and tells now and then. It is for one goroutine.
type meter struct {
	Progress
	tell func(Progress)
	told time.Time
}

// meterEvery is how often progress is told.
const meterEvery = 100 * time.Millisecond

func (m *meter) add(files, bytes int64) {
	m.Files += files
	m.Bytes += bytes
	if m.tell == nil {
		return
	}
	if now := time.Now(); now.Sub(m.told) >= meterEvery {
		m.told = now
		m.tell(m.Progress)
	}
}

// done tells the last figures.
func (m *meter) done() {
	if m.tell != nil {
		m.tell(m.Progress)
	}
}
