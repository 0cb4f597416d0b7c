package blobindex

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
)

const (
	// knownBlobs is the largest number of blobs in Indices: about 100 MB.
	knownBlobs = 1 << 20
	// knownPacks is the largest number of packs in Indices: each costs a read or two.
	knownPacks = 2000
	// indexReads is the number of concurrent reads of indices.
	indexReads = 16
)

// Known finds data in the packs of the store, for one session. A writer stores a blob
// again that Known does not find, which only costs space. Writers always store nodes and
// lists again: their digests do not cover places, so an unreferenced one in a live pack
// may refer to packs that are gone.
type Known struct {
	*Indices
	// Condemned are packs that new commits must not refer to.
	Condemned map[string]bool
}

// Find returns the place of a blob.
func (k *Known) Find(ctx context.Context, id digest.ID) (pack.Place, bool, error) {
	at, ok, err := k.find(ctx, k.Condemned, id)
	return at, ok && !k.Condemned[at.Pack.Key()], err
}

// Indices are the indices of the newest packs of the store. The first lookup reads them:
// after the caller has taken a lease, and has read the condemned packs. Packs that are
// condemned later stay for as long as the lease, so the indices are valid for all its
// sessions, concurrent ones included. Sessions add the packs that they store.
type Indices struct {
	backend backend.Backend
	cache   *Cache

	mu      sync.Mutex
	read    bool
	index   map[uint64]uint32
	records []pack.Record
}

// New returns the indices of a backend's packs, without reading them.
func New(b backend.Backend, c *Cache) *Indices { return &Indices{backend: b, cache: c} }

// find returns the place of a blob. The first call reads the indices of the packs that
// are not condemned.
func (x *Indices) find(ctx context.Context, condemned map[string]bool, id digest.ID) (pack.Place, bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.read {
		if err := x.load(ctx, condemned); err != nil {
			return pack.Place{}, false, fmt.Errorf("reading the indices of packs: %w", err)
		}
		x.read = true
	}
	i, ok := x.index[prefix(id)]
	if !ok || x.records[i].ID != id {
		return pack.Place{}, false, nil
	}
	return x.records[i].Place, true, nil
}

func prefix(id digest.ID) uint64 { return binary.LittleEndian.Uint64(id[:]) }

// Add adds the records of a stored pack.
func (x *Indices) Add(records []pack.Record) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.read && len(x.records) < knownBlobs { // else find reads them later, or the limit is reached
		x.note(records)
	}
}

func (x *Indices) note(records []pack.Record) {
	for _, r := range records {
		if r.Kind != pack.Data {
			continue
		}
		x.index[prefix(r.ID)] = uint32(len(x.records))
		x.records = append(x.records, r)
	}
}

func (x *Indices) load(ctx context.Context, condemned map[string]bool) error {
	var packs []backend.Info
	err := x.backend.List(ctx, pack.Prefix, func(i backend.Info) error {
		if !condemned[i.Key] {
			packs = append(packs, i)
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(packs, func(a, b backend.Info) int {
		return cmp.Or(b.Stored.Compare(a.Stored), cmp.Compare(a.Key, b.Key))
	})
	x.index, x.records = map[uint64]uint32{}, nil
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(indexReads)
	for _, p := range packs[:min(len(packs), knownPacks)] {
		mu.Lock()
		enough := len(x.records) >= knownBlobs
		mu.Unlock()
		if enough {
			break
		}
		group.Go(func() error {
			records, err := x.cache.read(ctx, x.backend, p)
			mu.Lock()
			defer mu.Unlock()
			x.note(records)
			return err
		})
	}
	return group.Wait()
}

// readPack reads the index of a pack. It returns no records for a damaged or missing
// pack: writers store its blobs again.
func readPack(ctx context.Context, b backend.Backend, p backend.Info) ([]pack.Record, error) {
	name, err := pack.ParseKey(p.Key)
	var records []pack.Record
	if err == nil {
		records, err = pack.ReadIndex(ctx, b, name, p.Size)
	}
	if errors.Is(err, pack.ErrDamaged) || errors.Is(err, backend.ErrShort) || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return records, err
}
