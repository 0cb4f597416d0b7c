package data

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/commit"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
)

// DefaultBranch is the branch that is meant where none is named.
const DefaultBranch = "main"

// shortest is how many digits of a commit's name have to be given.
const shortest = 8

// Dataset is a store and the heads of one dataset.
type Dataset struct {
	store *Store
	heads ref.Heads
}

// Dataset is the dataset that has these heads.
func (s *Store) Dataset(heads ref.Heads) *Dataset { return &Dataset{store: s, heads: heads} }

// commit reads a commit, and names its object where it is damaged or gone.
func (s *Store) commit(ctx context.Context, id digest.ID) (commit.Commit, error) {
	c, err := commit.Read(ctx, s.backend, id)
	if err != nil {
		return commit.Commit{}, damaged(commit.Key(id), err)
	}
	return c, nil
}

// Resolve finds the commit that a reference means. The error wraps
// [fs.ErrNotExist] where it means none.
func (d *Dataset) Resolve(ctx context.Context, reference string) (commit.Commit, error) {
	name, back, found := strings.Cut(reference, "~")
	steps := 0
	if found {
		n, err := strconv.Atoi(cmp.Or(back, "1"))
		if err != nil || n < 0 {
			return commit.Commit{}, fmt.Errorf("reference %q: after ~ give how many commits before", reference)
		}
		steps = n
	}
	c, err := d.named(ctx, cmp.Or(name, DefaultBranch))
	for i := 0; err == nil && i < steps; i++ {
		if len(c.Parents) == 0 {
			return commit.Commit{}, fmt.Errorf("reference %q: there are only %d commits before %s: %w", reference, i, name, fs.ErrNotExist)
		}
		c, err = d.store.commit(ctx, c.Parents[0])
	}
	return c, err
}

// named is the commit of a branch, a tag, or a hash or its beginning.
func (d *Dataset) named(ctx context.Context, name string) (commit.Commit, error) {
	if id, err := digest.Parse(name); err == nil {
		return commit.Read(ctx, d.store.backend, id)
	}
	for _, kind := range []ref.Kind{ref.Branch, ref.Tag} {
		c, err := d.head(ctx, ref.Name{Kind: kind, Name: name})
		if !errors.Is(err, fs.ErrNotExist) {
			return c, err
		}
	}
	if len(name) >= shortest && strings.Trim(name, "0123456789abcdef") == "" {
		return d.store.abbreviated(ctx, name)
	}
	return commit.Commit{}, fmt.Errorf("there is no branch, tag or commit %q: %w", name, fs.ErrNotExist)
}

// head is the commit that a head is at. One that moved on before its commit was
// read, and whose commit is collected, is looked at again.
func (d *Dataset) head(ctx context.Context, name ref.Name) (commit.Commit, error) {
	id, err := d.heads.Get(ctx, name)
	for err == nil {
		c, failed := d.store.commit(ctx, id)
		if failed == nil {
			return c, nil
		}
		now, err := d.heads.Get(ctx, name)
		if err != nil || now == id {
			return commit.Commit{}, errors.Join(failed, err)
		}
		id = now
	}
	return commit.Commit{}, err
}

// abbreviated is the commit whose name begins so.
func (s *Store) abbreviated(ctx context.Context, digits string) (commit.Commit, error) {
	var found []digest.ID
	err := s.backend.List(ctx, commit.Prefix+digits[:2]+"/", func(i backend.Info) error {
		id, err := commit.ParseKey(i.Key)
		if err == nil && strings.HasPrefix(id.String(), digits) {
			found = append(found, id)
		}
		return err
	})
	switch {
	case err != nil:
		return commit.Commit{}, err
	case len(found) == 0:
		return commit.Commit{}, fmt.Errorf("there is no branch, tag or commit %q: %w", digits, fs.ErrNotExist)
	case len(found) > 1:
		return commit.Commit{}, fmt.Errorf("%d commits begin with %q: give more digits", len(found), digits)
	}
	return s.commit(ctx, found[0])
}

// At is what a commit holds.
func (d *Dataset) At(ctx context.Context, reference string) (*View, error) {
	c, err := d.Resolve(ctx, reference)
	if err != nil {
		return nil, err
	}
	return &View{store: d.store, commit: c}, nil
}

// Head is a branch, a tag or an open commit, and where it is.
type Head struct {
	ref.Name
	Commit digest.ID
}

// Heads are all branches, then the open commits, then all tags, in the order of their names.
func (d *Dataset) Heads(ctx context.Context) ([]Head, error) {
	all, err := d.heads.List(ctx)
	if err != nil {
		return nil, err
	}
	heads := make([]Head, 0, len(all))
	for name, id := range all {
		heads = append(heads, Head{Name: name, Commit: id})
	}
	slices.SortFunc(heads, func(a, b Head) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name.Name, b.Name.Name))
	})
	return heads, nil
}

// Create makes a branch or a tag at a commit. It costs the same for any size.
func (d *Dataset) Create(ctx context.Context, name ref.Name, at string) error {
	if err := name.Check(); err != nil {
		return err
	}
	return d.move(ctx, name, at, func() (digest.ID, error) { return digest.ID{}, nil })
}

// Reset moves a branch to any commit. What it was at and nothing else leads to is
// for the next collection.
func (d *Dataset) Reset(ctx context.Context, branch, to string) error {
	name := ref.Name{Kind: ref.Branch, Name: branch}
	return d.move(ctx, name, to, func() (digest.ID, error) { return d.heads.Get(ctx, name) })
}

// move moves a head to a commit, which a lease keeps from being collected
// meanwhile.
func (d *Dataset) move(ctx context.Context, name ref.Name, reference string, from func() (digest.ID, error)) (err error) {
	c, err := d.Resolve(ctx, reference)
	if err != nil {
		return err
	}
	lease, err := d.store.Pin(ctx, c.ID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release(context.WithoutCancel(ctx))) }()
	condemned, err := d.store.condemned(ctx)
	if err != nil {
		return err
	}
	if condemned[commit.Key(c.ID)] {
		return fmt.Errorf("commit %s is being collected: nothing led to it: %w", c.ID.Short(), fs.ErrNotExist)
	}
	if _, err := d.store.commit(ctx, c.ID); err != nil {
		return err
	}
	old, err := from()
	if err != nil {
		return err
	}
	return swap(ctx, []*Lease{lease}, d.heads, name.Move(old, c.ID))
}

// Remove removes a branch or a tag. What nothing else leads to is for the next
// collection.
func (d *Dataset) Remove(ctx context.Context, name ref.Name) error {
	at, err := d.heads.Get(ctx, name)
	if err != nil {
		return err
	}
	return d.heads.Swap(ctx, name.Move(at, digest.ID{}))
}

// Log shows a commit and all before it, each once, later ones first.
func (d *Dataset) Log(ctx context.Context, reference string, see func(commit.Commit) error) error {
	c, err := d.Resolve(ctx, reference)
	if err != nil {
		return err
	}
	return stopped(d.store.history(ctx, []commit.Commit{c}, see))
}

// history shows commits and all before them, each once: a commit never before one
// that follows it, where clocks agree, and else by their times.
func (s *Store) history(ctx context.Context, from []commit.Commit, see func(commit.Commit) error) error {
	seen := map[digest.ID]bool{}
	line := &byTime{}
	for _, c := range from {
		if !seen[c.ID] {
			seen[c.ID] = true
			heap.Push(line, c)
		}
	}
	for line.Len() > 0 {
		c := heap.Pop(line).(commit.Commit)
		if err := see(c); err != nil {
			return err
		}
		for _, id := range c.Parents {
			if seen[id] {
				continue
			}
			seen[id] = true
			p, err := s.commit(ctx, id)
			if err != nil {
				return err
			}
			heap.Push(line, p)
		}
	}
	return nil
}

type byTime []commit.Commit

func (b byTime) Len() int           { return len(b) }
func (b byTime) Less(i, k int) bool { return b[i].Time.After(b[k].Time) }
func (b byTime) Swap(i, k int)      { b[i], b[k] = b[k], b[i] }
func (b *byTime) Push(x any)        { *b = append(*b, x.(commit.Commit)) }

// Pop implements heap.Interface.
func (b *byTime) Pop() any {
	old := *b
	last := old[len(old)-1]
	*b = old[:len(old)-1]
	return last
}

// Ancestor says whether one commit is the other or before it.
func (d *Dataset) Ancestor(ctx context.Context, older, younger string) (bool, error) {
	a, err := d.Resolve(ctx, older)
	if err != nil {
		return false, err
	}
	b, err := d.Resolve(ctx, younger)
	if err != nil {
		return false, err
	}
	return d.store.ancestor(ctx, a.ID, b)
}

func (s *Store) ancestor(ctx context.Context, older digest.ID, younger commit.Commit) (bool, error) {
	found := false
	err := s.history(ctx, []commit.Commit{younger}, func(c commit.Commit) error {
		if c.ID == older {
			found = true
			return Stop
		}
		return nil
	})
	return found, stopped(err)
}
