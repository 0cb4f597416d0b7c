package tree

import (
	"context"

	"github.com/muster-dev/muster/internal/data/pack"
)

// The bounds of nodes. A node ends behind an item whose key hashes to 0 in
// boundaryBits bits, but for the least and the most there may be.
const (
	minItems     = 32
	maxItems     = 512
	maxNodeBytes = 64 << 10
	boundaryBits = 7
	// itemBytes is about what an item takes beside its key.
	itemBytes = 56
)

// item is an entry or a ref on its way into a node; a key alone removes.
type item struct {
	key   string
	entry *Entry
	ref   *Ref
}

func (it *item) removes() bool { return it.entry == nil && it.ref == nil }

// builder makes the nodes of one level, one after the other.
type builder struct {
	save  Saver
	cache *Cache
	// node is the one that is filled, in memory that the next one is filled in, too.
	node  Node
	bytes int
	// made are the nodes that are finished.
	made []Ref
}

func newBuilder(save Saver, cache *Cache, level int) *builder {
	return &builder{save: save, cache: cache, node: Node{Level: level}}
}

func (b *builder) empty() bool { return b.node.Len() == 0 }

// add appends an item, and finishes the node if it ends there.
func (b *builder) add(ctx context.Context, it *item) error {
	if b.node.Level > 0 {
		b.node.Refs = append(b.node.Refs, *it.ref)
	} else {
		b.node.Entries = append(b.node.Entries, *it.entry)
		b.bytes += len(it.entry.Target)
	}
	b.bytes += len(it.key) + itemBytes
	n := b.node.Len()
	switch {
	case n >= maxItems, b.bytes >= maxNodeBytes && n >= 2:
	case n >= minItems && ends(it.key, b.node.Level):
	default:
		return nil
	}
	return b.finish(ctx)
}

// finish ends the node, if there is anything in it.
func (b *builder) finish(ctx context.Context) error {
	if b.empty() {
		return nil
	}
	id, blob := b.node.encode()
	ref := b.node.ref(id)
	at, err := b.save.Save(ctx, pack.Node, id, blob)
	if err != nil {
		return err
	}
	ref.Place = at
	b.made = append(b.made, ref)
	if b.cache != nil {
		b.cache.add(at, b.node.clone(), len(blob))
	}
	b.node.Entries, b.node.Refs, b.bytes = b.node.Entries[:0], b.node.Refs[:0], 0
	return nil
}

// ends says whether a node of a level ends behind a key: by FNV-1a with the
// finalizer of MurmurHash3, so that a few bits of it are as good as all, and for
// each level by other bits.
func ends(key string, level int) bool {
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	h += uint64(level) * 0x9e3779b97f4a7c15
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return h>>(64-boundaryBits) == 0
}
