// Package crafted stores commits that no session makes: entries in any order of kinds, with any
// paths, and claims that are not true. Tests use it to be what a hostile tenant is, who may store
// any pack and any commit that can be decoded.
package crafted

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/tree"
)

// Entry is a link if it has a target, else a file.
type Entry struct{ Path, Target, Content string }

// Commit is what was stored.
type Commit struct {
	ID digest.ID
	// Contents stores the pack with the contents of files.
	Contents func(context.Context) error
}

// Store stores a tree of one node and a commit, which claims so many files and bytes; negative: as
// many as there are. The contents of files are not stored yet.
func Store(ctx context.Context, b backend.Backend, files, bytes int64, list ...Entry) (Commit, error) {
	nodes, err := pack.NewBuilder(nil)
	if err != nil {
		return Commit{}, err
	}
	contents, err := pack.NewBuilder(nil)
	if err != nil {
		return Commit{}, err
	}
	what, where, size := encode(contents, list)
	if files < 0 {
		files = int64(len(list))
	}
	if bytes < 0 {
		bytes = size
	}
	id, blob := pack.Join(what, where)
	at := nodes.Add(id, pack.Node, len(blob), blob)
	if err := b.Put(ctx, nodes.Name().Key(), nodes.Seal()); err != nil {
		return Commit{}, fmt.Errorf("storing a node: %w", err)
	}
	c := &commit.Commit{Tree: tree.Root{ID: id, Place: at, Files: files, Bytes: bytes}, Time: time.Now()}
	if err := commit.Write(ctx, b, c, func() error { return nil }); err != nil {
		return Commit{}, fmt.Errorf("storing a commit: %w", err)
	}
	key, sealed := contents.Name().Key(), contents.Seal()
	return Commit{ID: c.ID, Contents: func(ctx context.Context) error { return b.Put(ctx, key, sealed) }}, nil
}

// encode writes a leaf with the entries, in order, and adds their contents to a pack.
func encode(contents *pack.Builder, list []Entry) (what []byte, where *pack.Places, size int64) {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	where = &pack.Places{}
	what = binary.AppendUvarint(what, 0)
	what = binary.AppendUvarint(what, uint64(len(list)))
	for _, e := range list {
		what = binary.AppendUvarint(what, 0)
		what = binary.AppendUvarint(what, uint64(len(e.Path)))
		what = append(what, e.Path...)
		if e.Target != "" {
			what = append(what, byte(tree.Link))
			what = binary.AppendUvarint(what, uint64(len(e.Target)))
			what = append(what, e.Target...)
			size += int64(len(e.Target))
			continue
		}
		raw := []byte(e.Content)
		sum := digest.Of(raw)
		what = append(what, byte(tree.File))
		what = binary.AppendUvarint(what, uint64(len(raw)))
		what = append(what, sum[:]...)
		where.Add(contents.Add(sum, pack.Data, len(raw), raw))
		size += int64(len(raw))
	}
	return what, where, size
}
