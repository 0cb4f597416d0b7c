package blobindex

import (
	"context"
	"sync"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/pack"
)

// keptRecords is the largest number of pack records in a cache: about 20 MB.
const keptRecords = 1 << 18

// Cache keeps indices of packs, which never change. A cached index does not mean that the
// pack still exists: the caller checks that first. The zero value is empty.
type Cache struct {
	mu    sync.Mutex
	packs map[string][]pack.Record
	kept  int
}

// read returns the index of a pack, from memory if it was read before.
func (c *Cache) read(ctx context.Context, b backend.Backend, p backend.Info) ([]pack.Record, error) {
	c.mu.Lock()
	records, ok := c.packs[p.Key]
	c.mu.Unlock()
	if ok {
		return records, nil
	}
	records, err := readPack(ctx, b, p)
	if err == nil && records != nil {
		c.keep(p.Key, records)
	}
	return records, err
}

// keep adds an index, and evicts arbitrary others to make room.
func (c *Cache) keep(key string, records []pack.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.packs[key]; there || len(records) > keptRecords {
		return
	}
	for other, of := range c.packs {
		if c.kept+len(records) <= keptRecords {
			break
		}
		delete(c.packs, other)
		c.kept -= len(of)
	}
	if c.packs == nil {
		c.packs = map[string][]pack.Record{}
	}
	c.packs[key] = records
	c.kept += len(records)
}
