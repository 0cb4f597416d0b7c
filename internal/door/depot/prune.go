package depot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/door/shelf"
)

// Pruned is what was removed.
type Pruned struct {
	Snapshots, Contents, Environments int
	// Bytes is the size of those contents and environments.
	Bytes int64
}

// stock is what a namespace has on the shelf, by hash.
type stock struct {
	trees, uses map[string]time.Time
	blobs       map[string]shelf.Info
}

// Prune removes what nobody needs. refers says whether a job of a namespace
// names a snapshot, by its digest, or an environment, by its key; what is named
// counts as used.
func (d *Depot) Prune(ctx context.Context, refers func(namespace, name string) bool) (Pruned, error) {
	all, err := d.stocktake(ctx)
	if err != nil {
		return Pruned{}, err
	}
	var sum Pruned
	var problems []error
	for namespace, s := range all {
		if err := d.pruneOne(ctx, namespace, s, refers, &sum); err != nil {
			problems = append(problems, fmt.Errorf("removing old code of namespace %s: %w", namespace, err))
		}
	}
	problems = append(problems, d.pruneEnvironments(ctx, refers, &sum))
	return sum, errors.Join(problems...)
}

// stocktake lists everything, by namespace.
func (d *Depot) stocktake(ctx context.Context) (map[string]*stock, error) {
	all := map[string]*stock{}
	err := d.opts.Shelf.List(ctx, "code/", func(i shelf.Info) error {
		parts := strings.Split(i.Key, "/")
		if len(parts) < 4 {
			return nil // nothing of ours
		}
		namespace, hash := parts[1], parts[len(parts)-1]
		s := all[namespace]
		if s == nil {
			s = &stock{trees: map[string]time.Time{}, uses: map[string]time.Time{}, blobs: map[string]shelf.Info{}}
			all[namespace] = s
		}
		switch parts[2] {
		case trees:
			s.trees[hash] = i.Stored
		case uses:
			s.uses[hash] = i.Stored
		case blobs:
			s.blobs[hash] = i
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the code that is kept: %w", err)
	}
	return all, nil
}

func (d *Depot) pruneOne(ctx context.Context, namespace string, s *stock, refers func(namespace, digest string) bool, sum *Pruned) error {
	old := d.opts.Now().Add(-d.opts.Retention)
	// 1. Snapshots that nobody has used for the retention.
	for hash, stored := range s.trees {
		digest, last := "sha256:"+hash, later(stored, s.uses[hash])
		if refers(namespace, digest) {
			if d.opts.Now().Sub(last) > 24*noteEvery {
				if err := d.note(ctx, namespace, digest); err != nil {
					return err
				}
			}
			continue
		}
		if last.After(old) || d.usedSince(ctx, namespace, hash, old) {
			continue
		}
		for _, part := range []string{trees, uses} {
			if err := d.opts.Shelf.Delete(ctx, key(namespace, part, hash)); err != nil {
				return err
			}
		}
		delete(s.trees, hash)
		d.forget(namespace + "/" + digest)
		sum.Snapshots++
	}
	// 2. Contents that no list names. If a list cannot be read, all stay.
	named := map[string]bool{}
	for hash := range s.trees {
		p, err := d.read(ctx, namespace, "sha256:"+hash)
		if errors.Is(err, ErrNotStored) {
			continue // it was damaged, and removed meanwhile
		}
		if err != nil {
			return err
		}
		for _, c := range p.Contents() {
			named[c.Hash] = true
		}
	}
	return d.pruneContents(ctx, s, named, old, sum)
}

func (d *Depot) pruneContents(ctx context.Context, s *stock, named map[string]bool, old time.Time, sum *Pruned) error {
	for hash, info := range s.blobs {
		if named[hash] || info.Stored.After(old) {
			continue
		}
		// It may have been sent again since it was listed.
		if now, err := d.opts.Shelf.Stat(ctx, info.Key); err == nil && now.Stored.After(old) {
			continue
		}
		if err := d.opts.Shelf.Delete(ctx, info.Key); err != nil {
			return err
		}
		sum.Contents++
		sum.Bytes += info.Size
	}
	return nil
}

// usedSince looks once more, just before something is removed.
func (d *Depot) usedSince(ctx context.Context, namespace, hash string, at time.Time) bool {
	info, err := d.opts.Shelf.Stat(ctx, key(namespace, uses, hash))
	return err == nil && info.Stored.After(at)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
