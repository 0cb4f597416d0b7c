package data

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

// known finds blobs in the packs of the store, the newest of them. It is read when
// it is first asked. What it does not know is stored again, which costs room and
// nothing else.
type known struct {
	store *Store
	// condemned are packs that must not be referred to any more.
	condemned map[string]bool

	read    bool
	index   map[uint64]uint32
	records []pack.Record
}

// find says where a blob lies.
func (k *known) find(ctx context.Context, id digest.ID) (pack.Place, bool, error) {
	if !k.read {
		if err := k.load(ctx); err != nil {
			return pack.Place{}, false, fmt.Errorf("looking for what is stored already: %w", err)
		}
		k.read = true
	}
	i, ok := k.index[prefix(id)]
	if !ok || k.records[i].ID != id {
		return pack.Place{}, false, nil
	}
	return k.records[i].Place, true, nil
}

func prefix(id digest.ID) uint64 { return binary.LittleEndian.Uint64(id[:]) }

func (k *known) load(ctx context.Context) error {
	var packs []backend.Info
	err := k.store.backend.List(ctx, pack.Prefix, func(i backend.Info) error {
		if !k.condemned[i.Key] {
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
	k.index = map[uint64]uint32{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(indexReads)
	for _, p := range packs[:min(len(packs), knownPacks)] {
		mu.Lock()
		enough := len(k.records) >= knownBlobs
		mu.Unlock()
		if enough {
			break
		}
		group.Go(func() error {
			records, err := readPack(ctx, k.store.backend, p)
			mu.Lock()
			defer mu.Unlock()
			for _, r := range records {
				k.index[prefix(r.ID)] = uint32(len(k.records))
				k.records = append(k.records, r)
			}
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
