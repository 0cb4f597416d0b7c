package tree

import (
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/muster-dev/muster/internal/data/digest"
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

// aside is how many nodes are on their way to the saver at most.
const aside = 64

// builder makes the nodes of one level, one after the other. What a node is called and
// how it is stored is found out aside, by as many at once as there are processors.
// Whoever makes one ends it.
type builder struct {
	save  Saver
	cache *Cache
	// node is the one that is filled, in memory that the next one is filled in, too.
	node  Node
	bytes int
	// work finds out what is to be known of those that are finished and not saved.
	work     errgroup.Group
	finished []*finished
	// made are the nodes that are saved.
	made []Ref
}

// finished is a node on its way to the saver.
type finished struct {
	node *Node
	id   digest.ID
	// raw is how long its blob is, and stored what is stored of it.
	raw    int
	stored []byte
}

func newBuilder(save Saver, cache *Cache, level int) *builder {
	b := &builder{save: save, cache: cache, node: Node{Level: level}}
	b.work.SetLimit(runtime.GOMAXPROCS(0))
	return b
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
	f := &finished{node: b.node.clone()}
	b.node.Entries, b.node.Refs, b.bytes = b.node.Entries[:0], b.node.Refs[:0], 0
	b.finished = append(b.finished, f)
	b.work.Go(func() error {
		b.write(f)
		return nil
	})
	if len(b.finished) < aside {
		return nil
	}
	return b.settle(ctx)
}

// write finds out what a node is called and how it is stored: compressed, where at least
// a third of it is no noise. What is saved of others is less than a sixth, for half the
// time that a node takes; and those are the ones that many small commits make, where each
// entry is in a pack of its own and somebody waits.
func (b *builder) write(f *finished) {
	w := b.cache.writer()
	defer b.cache.give(w)
	var blob []byte
	f.id, blob = w.write(f.node)
	f.raw, f.stored = len(blob), blob
	if w.noise <= len(blob)*2/3 {
		f.stored = b.save.Compress(blob)
	}
}

// settle saves what is finished.
func (b *builder) settle(ctx context.Context) error {
	b.wait()
	for _, f := range b.finished {
		at, err := b.save.Save(ctx, pack.Node, f.id, f.raw, f.stored)
		if err != nil {
			return err
		}
		ref := f.node.ref(f.id)
		ref.Place = at
		b.made = append(b.made, ref)
		b.cache.add(f.id, at, f.node, f.raw)
	}
	clear(b.finished)
	b.finished = b.finished[:0]
	return nil
}

// end is all nodes of the level, once the last is finished.
func (b *builder) end(ctx context.Context) ([]Ref, error) {
	if err := b.finish(ctx); err != nil {
		return nil, err
	}
	if err := b.settle(ctx); err != nil {
		return nil, err
	}
	return b.made, nil
}

// wait waits for what is being found out.
func (b *builder) wait() { _ = b.work.Wait() } // there is nothing that could fail

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
