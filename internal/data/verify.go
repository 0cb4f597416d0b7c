package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/data/tree"
)

// VerifyOptions say what is looked at.
type VerifyOptions struct {
	// Heads are those of the datasets that are looked at.
	Heads []ref.Heads
	// Bytes reads every file's content; else only what is written of it, and whether
	// it is there in its length.
	Bytes bool
	// Progress is told how far it is, if given.
	Progress func(Progress)
}

// Problem is one thing that is wrong.
type Problem struct {
	// Object is the key of the object that is damaged or gone.
	Object string
	// Commit and Path are the first that were found to be hit; Path is empty where a
	// part of the tree is.
	Commit digest.ID
	Path   string
	// Reason is what is wrong.
	Reason string
}

// VerifyReport is what was found.
type VerifyReport struct {
	Commits      int
	Files, Bytes int64
	Problems     []Problem
}

// most is how many problems are told.
const most = 1000

// verifier looks at everything that heads lead to, and goes on after problems.
type verifier struct {
	store   *Store
	bytes   bool
	sizes   map[string]int64 // of packs
	seen    map[pack.Place]bool
	commit  digest.ID
	report  VerifyReport
	problem map[Problem]bool
	meter
}

// Verify looks at everything that heads lead to. What is wrong is in the report;
// an error means that looking was not possible.
func (s *Store) Verify(ctx context.Context, o VerifyOptions) (VerifyReport, error) {
	v := &verifier{
		store: s, bytes: o.Bytes, sizes: map[string]int64{}, seen: map[pack.Place]bool{},
		problem: map[Problem]bool{}, meter: meter{tell: o.Progress},
	}
	err := s.backend.List(ctx, pack.Prefix, func(i backend.Info) error {
		v.sizes[i.Key] = i.Size
		return nil
	})
	if err != nil {
		return VerifyReport{}, fmt.Errorf("verifying: %w", err)
	}
	from, err := roots(ctx, o.Heads)
	if err != nil {
		return VerifyReport{}, fmt.Errorf("verifying: %w", err)
	}
	seen := map[digest.ID]bool{}
	line := []digest.ID{}
	for id := range from {
		line = append(line, id)
	}
	for len(line) > 0 {
		id := line[len(line)-1]
		line = line[:len(line)-1]
		if seen[id] {
			continue
		}
		seen[id] = true
		parents, err := v.look(ctx, id)
		if err != nil {
			return v.report, fmt.Errorf("verifying: %w", err)
		}
		line = append(line, parents...)
	}
	v.done()
	slices.SortFunc(v.report.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Path, b.Path))
	})
	return v.report, nil
}

// look looks at one commit, and is those before it.
func (v *verifier) look(ctx context.Context, id digest.ID) ([]digest.ID, error) {
	v.commit = id
	v.report.Commits++
	c, err := v.store.commit(ctx, id)
	if err != nil {
		return nil, v.found(commit.Key(id), "", err)
	}
	if c.Tree.ID.IsZero() {
		return c.Parents, nil
	}
	return c.Parents, v.node(ctx, c.Tree.ID, c.Tree.Place)
}

// found notes a problem; another error ends everything.
func (v *verifier) found(object, path string, err error) error {
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) {
		if !errors.Is(err, pack.ErrDamaged) {
			return err
		}
		corrupt = &CorruptError{Object: object, Reason: err.Error()}
	}
	p := Problem{Object: corrupt.Object, Commit: v.commit, Path: path, Reason: corrupt.Reason}
	if len(v.report.Problems) < most && !v.problem[p] {
		v.problem[p] = true
		v.report.Problems = append(v.report.Problems, p)
	}
	return nil
}

func (v *verifier) node(ctx context.Context, id digest.ID, at pack.Place) error {
	if v.seen[at] {
		return nil
	}
	v.seen[at] = true
	if err := ctx.Err(); err != nil {
		return err
	}
	// Read anew, not out of the cache: what lies there is what is looked at.
	n, err := tree.New(blobs{v.store}, nil).Node(ctx, id, at)
	if err != nil {
		return v.found(at.Pack.Key(), "", err)
	}
	for i := range n.Refs {
		if err := v.node(ctx, n.Refs[i].ID, n.Refs[i].Place); err != nil {
			return err
		}
	}
	for i := range n.Entries {
		if err := v.entry(ctx, &n.Entries[i]); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) entry(ctx context.Context, e *tree.Entry) error {
	v.report.Files++
	v.report.Bytes += e.Size
	v.add(1, e.Size)
	list, err := pieces(ctx, blobs{v.store}, e)
	if err != nil {
		return v.found(e.Place.Pack.Key(), e.Path, err)
	}
	for _, p := range list {
		if v.seen[p.Place] {
			continue
		}
		v.seen[p.Place] = true
		if err := v.piece(ctx, p); err != nil {
			if err := v.found(p.Place.Pack.Key(), e.Path, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// piece says what is wrong with a chunk.
func (v *verifier) piece(ctx context.Context, p Piece) error {
	key := p.Place.Pack.Key()
	size, there := v.sizes[key]
	if !there { // by the list; or it came, or was moved, meanwhile
		info, err := v.store.backend.Stat(ctx, key)
		if err != nil {
			return &CorruptError{Object: key, Reason: err.Error()}
		}
		size, v.sizes[key] = info.Size, info.Size
	}
	switch {
	case size < int64(p.Place.Offset)+int64(p.Place.Stored):
		return &CorruptError{Object: key, Reason: fmt.Sprintf("it has %d bytes, and %d at %d are meant", size, p.Place.Stored, p.Place.Offset)}
	case int64(p.Place.Raw) != p.Size:
		return &CorruptError{Object: key, Reason: fmt.Sprintf("a chunk of %d bytes instead of %d", p.Place.Raw, p.Size)}
	case v.bytes:
		_, err := (blobs{v.store}).Load(ctx, pack.Data, p.ID, p.Place)
		return err
	}
	return nil
}
