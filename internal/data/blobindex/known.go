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
	// knownBlobs is how many blobs are known at most: about 100 MB.
	knownBlobs = 1 << 20
	// knownPacks is how many packs are asked: each costs a read or two.
	knownPacks = 2000
	// indexReads is how many indices are read at once.
	indexReads = 16
)

// Known finds data in the packs of the store, for one session. What it does not know is
// stored again, which costs room and nothing else. Nodes and lists are always stored again:
// their names say nothing of places, so one that nobody needs, and that is there with others
// in its pack, may name packs that are gone.
type Known struct {
	*Indices
	// Condemned are packs that must not be referred to any more.
	Condemned map[string]bool
}

// Find says where a blob lies.
func (k *Known) Find(ctx context.Context, id digest.ID) (pack.Place, bool, error) {
	at, ok, err := k.find(ctx, k.Condemned, id)
	return at, ok && !k.Condemned[at.Pack.Key()], err
}

// Indices are what the newest packs of the store have. They are read when they are
// first asked: after a lease was taken, and after it was read what is condemned. Since
// what is condemned later stays as long as that lease, they are good for all sessions
// of the lease, one after another or at once; packs that these store are added.
type Indices struct {
	backend backend.Backend
	cache   *Cache

	mu      sync.Mutex
	read    bool
	index   map[uint64]uint32
	records []pack.Record
}

// New returns those of a backend, which are not read yet.
func New(b backend.Backend, c *Cache) *Indices { return &Indices{backend: b, cache: c} }

// find says where a blob lies. Packs that are condemned now are not read.
func (x *Indices) find(ctx context.Context, condemned map[string]bool, id digest.ID) (pack.Place, bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.read {
		if err := x.load(ctx, condemned); err != nil {
			return pack.Place{}, false, fmt.Errorf("looking for what is stored already: %w", err)
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

// Add notes what a pack has that was stored.
func (x *Indices) Add(records []pack.Record) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.read && len(x.records) < knownBlobs { // else they will be read, or are too many
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

// readPack reads the index of a pack. One that is damaged or gone knows nothing:
// what it had is stored again.
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
