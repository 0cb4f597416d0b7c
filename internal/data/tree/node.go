package tree

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
)

// maxFiles is more than any tree has. The sum of a node cannot overflow.
const maxFiles = 1 << 40

// maxLevel is higher than any tree gets: 2 refs in each node would be 2^48 leaves.
const maxLevel = 48

// Node is a leaf (level 0) with entries, or an inner node with refs.
type Node struct {
	Level   int
	Entries []Entry
	Refs    []Ref
}

// Len is how many items there are.
func (n *Node) Len() int {
	if n.Level > 0 {
		return len(n.Refs)
	}
	return len(n.Entries)
}

// clone is a node that no change of this one reaches, in no more memory than it needs.
func (n *Node) clone() *Node {
	return &Node{Level: n.Level, Entries: slices.Clone(n.Entries), Refs: slices.Clone(n.Refs)}
}

// Key is the key of an item: a path, or the last path below it.
func (n *Node) Key(i int) string {
	if n.Level > 0 {
		return n.Refs[i].Last
	}
	return n.Entries[i].Path
}

// before is the last key before the item i, where all keys are behind outer.
func (n *Node) before(i int, outer string) string {
	if i == 0 {
		return outer
	}
	return n.Key(i - 1)
}

// claimed returns an error if the node has not as many files and bytes as somebody claims.
func (n *Node) claimed(id digest.ID, files, bytes int64) error {
	r := n.ref(id)
	if r.Files == files && r.Bytes == bytes {
		return nil
	}
	return fmt.Errorf("node %s has %d files of %d bytes, and %d of %d are claimed: %w", id.Short(), r.Files, r.Bytes, files, bytes, pack.ErrDamaged)
}

// search is the first item whose key is not before a key.
func (n *Node) search(key string) int {
	return sort.Search(n.Len(), func(i int) bool { return n.Key(i) >= key })
}

// after is the first item whose key is behind a key.
func (n *Node) after(key string) int {
	return sort.Search(n.Len(), func(i int) bool { return n.Key(i) > key })
}

// ref is the node as the level above has it, without its place.
func (n *Node) ref(id digest.ID) Ref {
	r := Ref{Last: n.Key(n.Len() - 1), ID: id}
	for i := range n.Entries {
		r.Files++
		r.Bytes += n.Entries[i].Size
	}
	for i := range n.Refs {
		r.Files += n.Refs[i].Files
		r.Bytes += n.Refs[i].Bytes
	}
	return r
}

// The bits of an entry's flags beside its kind.
const (
	kindBits       = 3
	executableFlag = 4
	listFlag       = 8
)

// writer is the memory of who writes one node after the other.
type writer struct {
	what  []byte
	where pack.Places
	// noise is about how many bytes of the last node nobody can compress: hashes, and
	// names of packs, which are random.
	noise int
}

// write is a node's blob, and its name, which says nothing of places.
func (w *writer) write(n *Node) (digest.ID, []byte) {
	what, where := slices.Grow(w.what[:0], itemBytes*n.Len()), &w.where
	what = binary.AppendUvarint(what, uint64(n.Level))
	what = binary.AppendUvarint(what, uint64(n.Len()))
	where.Reset()
	where.Grow(n.Len())
	hashes, last := 0, ""
	for i := range n.Len() {
		key := n.Key(i)
		shared := sharedPrefix(last, key)
		what = binary.AppendUvarint(what, uint64(shared))
		what = binary.AppendUvarint(what, uint64(len(key)-shared))
		what = append(what, key[shared:]...)
		last = key
		if n.Level > 0 {
			r := &n.Refs[i]
			what = append(what, r.ID[:]...)
			hashes++
			what = binary.AppendUvarint(what, uint64(r.Files))
			what = binary.AppendUvarint(what, uint64(r.Bytes))
			where.Add(r.Place)
			continue
		}
		e := &n.Entries[i]
		what = append(what, e.flags())
		what = binary.AppendUvarint(what, uint64(e.Size))
		switch {
		case e.Kind == Link:
			what = append(what, e.Target...)
		case e.Size > 0:
			what = append(what, e.Content[:]...)
			if i == 0 || e.Content != n.Entries[i-1].Content {
				hashes++
			}
			where.Add(e.Place)
		}
	}
	w.what, w.noise = what, hashes*digest.Size+where.Packs()*len(pack.Name{})
	return pack.Join(what, where)
}

func (e *Entry) flags() byte {
	f := byte(e.Kind)
	if e.Executable {
		f |= executableFlag
	}
	if e.List {
		f |= listFlag
	}
	return f
}

func sharedPrefix(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return i
}

// decode reads what a writer wrote, and refuses what none writes.
func decode(id digest.ID, blob []byte) (*Node, error) {
	what, where, err := pack.Split(id, blob)
	if err != nil {
		return nil, err
	}
	in, places := pack.Scanner{Rest: what}, pack.ReadPlaces(where)
	n := &Node{Level: int(min(in.Uvarint(), maxLevel+1))}
	count := in.Uvarint()
	if n.Level > maxLevel || count == 0 || count > uint64(len(what)) {
		return nil, fmt.Errorf("node %s is of level %d and has %d items: %w", id.Short(), n.Level, count, pack.ErrDamaged)
	}
	last, left := "", uint64(math.MaxInt64)
	for range count {
		key, err := decodeKey(&in, last)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", id.Short(), err)
		}
		last = key
		if n.Level > 0 {
			r := Ref{Last: key, ID: in.ID(), Files: int64(in.Uvarint()), Bytes: int64(in.Uvarint())}
			r.Place = places.Next()
			if r.Files < 1 || r.Bytes < 0 || uint64(r.Files) > maxFiles || !take(&left, r.Bytes) {
				return nil, fmt.Errorf("node %s: %d files of %d bytes up to %q: %w", id.Short(), r.Files, r.Bytes, key, pack.ErrDamaged)
			}
			n.Refs = append(n.Refs, r)
			continue
		}
		e := decodeEntry(&in, &places, key)
		if e.Size < 0 || e.Kind != File && e.Kind != Link || !take(&left, e.Size) {
			return nil, fmt.Errorf("node %s: %q is a %s of %d bytes: %w", id.Short(), key, e.Kind, e.Size, pack.ErrDamaged)
		}
		n.Entries = append(n.Entries, e)
	}
	for _, err := range []error{in.End(), places.End()} {
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", id.Short(), err)
		}
	}
	return n, nil
}

// take takes bytes from those that a sum has left, and reports whether there are so many.
func take(left *uint64, bytes int64) bool {
	if bytes < 0 || uint64(bytes) > *left {
		return false
	}
	*left -= uint64(bytes)
	return true
}

func decodeKey(in *pack.Scanner, last string) (string, error) {
	shared, length := in.Uvarint(), in.Uvarint()
	suffix := in.Bytes(length)
	if in.Err != nil {
		return "", in.Err
	}
	if shared > uint64(len(last)) {
		return "", fmt.Errorf("a path shares more than there is: %w", pack.ErrDamaged)
	}
	key := last[:shared] + string(suffix)
	if key <= last || len(key) > MaxPath {
		return "", fmt.Errorf("paths out of order: %w", pack.ErrDamaged)
	}
	return key, nil
}

func decodeEntry(in *pack.Scanner, places *pack.PlaceReader, key string) Entry {
	f, size := in.Byte(), in.Uvarint()
	e := Entry{Path: key, Kind: Kind(f & kindBits), Executable: f&executableFlag != 0, List: f&listFlag != 0, Size: int64(size)}
	switch {
	case e.Kind == Link:
		e.Target = string(in.Bytes(size))
	case size > 0:
		e.Content = in.ID()
		e.Place = places.Next()
	}
	return e
}

// load reads a node, out of the cache if it is there.
func (t *Tree) load(ctx context.Context, id digest.ID, at pack.Place) (*Node, error) {
	if n, ok := t.cache.get(id, at); ok {
		return n, nil
	}
	blob, err := t.blobs.Load(ctx, pack.Node, id, at)
	if err != nil {
		return nil, fmt.Errorf("reading a node of a tree: %w", err)
	}
	n, err := decode(id, blob)
	if err != nil {
		return nil, fmt.Errorf("reading a node of a tree at %s: %w", at, err)
	}
	t.cache.add(id, at, n, len(blob))
	return n, nil
}
