package data

import (
	"context"
	"fmt"

	"github.com/muster-dev/muster/internal/data/chunk"
	"github.com/muster-dev/muster/internal/data/pack"
)

// Piece is one chunk of a file; see [chunk.Piece].
type Piece = chunk.Piece

// Pieces are the chunks of a file, in order, for who keeps chunks by themselves:
// others have [View.Open]. An empty file and what is no file have none.
func (v *View) Pieces(ctx context.Context, e *Entry) ([]Piece, error) {
	return pieces(ctx, blobs{v.store}, e)
}

// Load is the content of one chunk, checked against its name. An error that wraps
// [pack.ErrDamaged] is not made better by another try.
func (v *View) Load(ctx context.Context, p Piece) ([]byte, error) { return v.store.load(ctx, p) }

// load reads one chunk.
func (s *Store) load(ctx context.Context, p Piece) ([]byte, error) {
	raw, err := blobs{s}.Load(ctx, pack.Data, p.ID, p.Place)
	if err == nil && int64(len(raw)) != p.Size {
		err = damaged(p.Place.Pack.Key(), fmt.Errorf("a chunk of %d bytes instead of %d: %w", len(raw), p.Size, pack.ErrDamaged))
	}
	if err != nil {
		return nil, err
	}
	return raw, nil
}
