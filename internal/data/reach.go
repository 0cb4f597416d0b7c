package data

import (
	"context"
	"fmt"
	"maps"

	"github.com/muster-dev/muster/internal/data/chunk"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/data/tree"
)

// reach is everything that can be come to from commits.
type reach struct {
	store   *Store
	commits map[digest.ID]bool
	packs   map[pack.Name]bool
	// nodes and lists that have been looked at, by where they lie: the same node
	// elsewhere may name other packs.
	seen map[pack.Place]bool
}

func (s *Store) newReach() *reach {
	return &reach{store: s, commits: map[digest.ID]bool{}, packs: map[pack.Name]bool{}, seen: map[pack.Place]bool{}}
}

// from adds a commit with everything that it and those before it hold.
func (r *reach) from(ctx context.Context, id digest.ID) error {
	line := []digest.ID{id}
	var added []digest.ID
	for len(line) > 0 {
		id, line = line[len(line)-1], line[:len(line)-1]
		if r.commits[id] {
			continue
		}
		parents, err := r.one(ctx, id)
		if err != nil {
			// What is behind them has not been looked at: they do not count.
			for _, id := range added {
				delete(r.commits, id)
			}
			return err
		}
		r.commits[id] = true
		added, line = append(added, id), append(line, parents...)
	}
	return nil
}

// one adds what a commit holds, and is those before it.
func (r *reach) one(ctx context.Context, id digest.ID) ([]digest.ID, error) {
	c, err := r.store.commit(ctx, id)
	if err != nil || c.Tree.ID.IsZero() {
		return c.Parents, err
	}
	if err := r.node(ctx, c.Tree.ID, c.Tree.Place); err != nil {
		return nil, fmt.Errorf("in commit %s: %w", id.Short(), err)
	}
	return c.Parents, nil
}

// node adds a node with everything below.
func (r *reach) node(ctx context.Context, id digest.ID, at pack.Place) error {
	if r.seen[at] {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	n, err := r.store.trees.Node(ctx, id, at)
	if err != nil {
		return err
	}
	for i := range n.Refs {
		if err := r.node(ctx, n.Refs[i].ID, n.Refs[i].Place); err != nil {
			return err
		}
	}
	for i := range n.Entries {
		if err := r.entry(ctx, &n.Entries[i]); err != nil {
			return err
		}
	}
	r.packs[at.Pack] = true
	r.seen[at] = true
	return nil
}

func (r *reach) entry(ctx context.Context, e *tree.Entry) error {
	if e.Kind != tree.File || e.Size == 0 {
		return nil
	}
	r.packs[e.Place.Pack] = true
	if !e.List || r.seen[e.Place] {
		return nil
	}
	var list []chunk.Piece
	list, err := pieces(ctx, blobs{r.store}, e)
	if err != nil {
		return err
	}
	for _, p := range list {
		r.packs[p.Place.Pack] = true
	}
	r.seen[e.Place] = true
	return nil
}

// roots are the commits that heads are at.
func roots(ctx context.Context, all []ref.Heads) (map[digest.ID]bool, error) {
	found := map[digest.ID]bool{}
	for _, heads := range all {
		list, err := heads.List(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing heads: %w", err)
		}
		for id := range maps.Values(list) {
			found[id] = true
		}
	}
	return found, nil
}

// reaches says whether an object is reached.
func (r *reach) reaches(key string) bool {
	if name, err := pack.ParseKey(key); err == nil {
		return r.packs[name]
	}
	if id, err := commit.ParseKey(key); err == nil {
		return r.commits[id]
	}
	return false
}
