package data

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/blobindex"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
)

const (
	// flights is how many packs are stored at once: more of them share a commit of the
	// journal of a file system, and each takes 38 MB of memory.
	flights = 5
	// together is up to which length a pack of data takes tree nodes, too.
	together = 8 << 20
	// remembered is how many blobs one generation of a session's memory has.
	remembered = 250_000
	// knownAfter is how many new bytes a session has before it asks what all packs
	// have: reading their indices costs more than storing a little twice.
	knownAfter = 1 << 20
)

// writer fills packs and stores them. Adding is for one goroutine at a time.
type writer struct {
	store *Store
	// known finds blobs in packs that were there before.
	known *blobindex.Known
	group *errgroup.Group
	// ctx is that of the session: packs are stored while nobody waits for them.
	ctx context.Context

	mu   sync.Mutex
	data *pack.Builder
	meta *pack.Builder
	// started is the pack of data, where the store has begun to take it.
	started backend.Started
	full    bool // a pack of data has been stored
	// flying are the packs that are being stored, open those that are being filled.
	flying map[pack.Name][]byte
	stored int64
	failed error // the first pack that could not be stored

	fresh  int64
	recent map[digest.ID]pack.Place
	older  map[digest.ID]pack.Place
}

// buffers are those of packs that were stored, for the next ones: one that will be full
// is 38 MB, which the system has to clear. The zero value has none.
type buffers struct{ pool sync.Pool }

// take is a buffer, nil where none is left.
func (b *buffers) take() []byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return *buf
	}
	return nil
}

// give takes a buffer that nobody reads any more.
func (b *buffers) give(buf []byte) { b.pool.Put(&buf) }

func newWriter(ctx context.Context, s *Store, k *blobindex.Known) *writer {
	w := &writer{store: s, known: k, ctx: ctx, flying: map[pack.Name][]byte{}, recent: map[digest.ID]pack.Place{}}
	w.renew()
	return w
}

func (w *writer) renew() {
	w.group = &errgroup.Group{}
	w.group.SetLimit(flights)
}

// find says where a blob of a length is already.
func (w *writer) find(ctx context.Context, id digest.ID, size int) (pack.Place, bool, error) {
	if at, ok := w.recent[id]; ok {
		return at, true, nil
	}
	if at, ok := w.older[id]; ok {
		return at, true, nil
	}
	w.fresh += int64(size)
	if w.fresh < knownAfter {
		return pack.Place{}, false, nil
	}
	return w.known.Find(ctx, id)
}

// Compress implements [tree.Saver].
func (w *writer) Compress(raw []byte) []byte { return w.store.codec.Encode(raw, nil) }

// Save implements [tree.Saver].
func (w *writer) Save(ctx context.Context, kind pack.Kind, id digest.ID, raw int, stored []byte) (pack.Place, error) {
	if at, ok, err := w.find(ctx, id, raw); ok || err != nil {
		return at, err
	}
	return w.put(kind, id, raw, stored)
}

// unstored is the number of bytes of packs that are not stored yet.
func (w *writer) unstored() (bytes int64) {
	for _, b := range []*pack.Builder{w.data, w.meta} {
		if b != nil {
			bytes += int64(b.Len())
		}
	}
	for _, b := range w.flying {
		bytes += int64(len(b))
	}
	return bytes
}

// put adds a blob that is not there yet, as it is to be stored.
func (w *writer) put(kind pack.Kind, id digest.ID, raw int, stored []byte) (pack.Place, error) {
	w.mu.Lock()
	if w.failed != nil {
		defer w.mu.Unlock()
		return pack.Place{}, w.failed
	}
	if kind != pack.Node {
		if err := w.store.room(w.unstored()); err != nil {
			w.mu.Unlock()
			return pack.Place{}, err
		}
	}
	slot := &w.data
	if kind == pack.Node && (w.full || w.meta != nil || w.data != nil && w.data.Len() > together) {
		slot = &w.meta
	}
	if *slot == nil {
		b, err := pack.NewBuilder(w.store.buffers.take())
		if err != nil {
			w.mu.Unlock()
			return pack.Place{}, err
		}
		*slot = b
	}
	at := (*slot).Add(id, kind, raw, stored)
	w.remember(id, at)
	if (*slot).Len() < pack.Full {
		w.mu.Unlock()
		return at, nil
	}
	b, started := *slot, backend.Started(nil)
	if *slot = nil; slot == &w.data {
		w.full = true
		started, w.started = w.started, nil
	}
	w.mu.Unlock()
	w.launch(b, started)
	return at, nil
}

// start has the store take what the pack of data has so far; false: it takes no pack that
// is not whole.
func (w *writer) start() bool {
	store, ok := w.store.backend.(backend.Starter)
	if !ok {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.data == nil {
		return true
	}
	if w.started == nil {
		w.started = store.Start(w.data.Name().Key())
	}
	w.started.Grow(w.data.Bytes())
	return true
}

// drop gives up the pack that the store has begun to take, if there is one.
func (w *writer) drop() {
	w.mu.Lock()
	started := w.started
	w.started = nil
	w.mu.Unlock()
	if started != nil {
		started.Drop()
	}
}

func (w *writer) remember(id digest.ID, at pack.Place) {
	if len(w.recent) >= remembered {
		w.older, w.recent = w.recent, make(map[digest.ID]pack.Place, remembered)
	}
	w.recent[id] = at
}

// launch has a pack stored, which may have been started, once there are few enough that
// are.
func (w *writer) launch(b *pack.Builder, started backend.Started) {
	content, name := b.Seal(), b.Name()
	w.mu.Lock()
	w.flying[name] = content
	w.mu.Unlock()
	w.group.Go(func() error {
		put := func() error { return w.store.backend.Put(w.ctx, name.Key(), content) }
		if started != nil {
			put = func() error { return started.Finish(w.ctx, content) }
		}
		err := put()
		w.mu.Lock()
		defer w.mu.Unlock()
		if err != nil {
			w.failed = fmt.Errorf("storing a pack: %w", err)
			return w.failed
		}
		delete(w.flying, name)
		w.stored += int64(len(content))
		w.store.buffers.give(content)
		w.known.Add(b.Records())
		return nil
	})
}

// send has the packs be stored that are being filled.
func (w *writer) send() {
	w.mu.Lock()
	data, meta, started := w.data, w.meta, w.started
	w.data, w.meta, w.started = nil, nil, nil
	w.mu.Unlock()
	if data != nil {
		w.launch(data, started)
	}
	if meta != nil {
		w.launch(meta, nil)
	}
}

// flush has everything durable when it returns nil.
func (w *writer) flush() error {
	w.send()
	err := w.group.Wait()
	w.renew()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		err = w.failed // of a pack that was stored before the last flush
	}
	return err
}

// written is how many bytes have been stored.
func (w *writer) written() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stored
}

// Load implements [tree.Loader]: also of what is not stored yet.
func (w *writer) Load(ctx context.Context, kind pack.Kind, id digest.ID, at pack.Place) ([]byte, error) {
	if stored := w.pending(at); stored != nil {
		return w.store.unpack(kind, id, at, stored, nil)
	}
	return blobs{w.store}.Load(ctx, kind, id, at)
}

// pending is a copy of what lies in a pack that is not stored yet.
func (w *writer) pending(at pack.Place) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	from := w.flying[at.Pack]
	for _, b := range []*pack.Builder{w.data, w.meta} {
		if b != nil && b.Name() == at.Pack {
			from = b.Bytes()
		}
	}
	if end := int64(at.Offset) + int64(at.Stored); end <= int64(len(from)) {
		return append([]byte{}, from[at.Offset:end]...)
	}
	return nil
}
