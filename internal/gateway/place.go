package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/versity/versitygw/s3err"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
)

const (
	// fresh is for how long it counts where heads were, unless the gateway moved them
	// itself: what others commit is seen after that.
	fresh = 50 * time.Millisecond
	// keptViews is how many commits are kept that were read.
	keptViews = 256
)

// placeName names a dataset.
type placeName struct{ namespace, dataset string }

// viewName names a commit in the store of a namespace: others may have the same, which
// says nothing of whose store has its bytes.
type viewName struct {
	namespace string
	id        digest.ID
}

// place is a dataset that is served.
type place struct {
	*data.Dataset
	home  *home
	name  placeName
	heads *heads

	mu sync.Mutex
	// led are commits of which it is known that a head leads to them, or did.
	led map[digest.ID]bool
}

// open is a dataset with which the caller may do that.
func (g *Gateway) open(ctx context.Context, verb Verb, bucket *string) (*place, Grant, error) {
	name := strings.Clone(*bucket)
	grant, err := g.allow(ctx, verb, name)
	if err != nil {
		return nil, grant, err
	}
	key := placeName{grant.Namespace, name}
	g.mu.Lock()
	p := g.places[key]
	g.mu.Unlock()
	if p == nil {
		in, err := g.home(ctx, key.namespace)
		if err != nil {
			return nil, grant, g.explain(err)
		}
		h := &heads{from: g.o.Catalog.Heads(key.namespace, key.dataset)}
		p = &place{Dataset: in.store.Dataset(h), home: in, name: key, heads: h, led: map[digest.ID]bool{}}
	}
	if _, err := p.heads.List(ctx); err != nil {
		if errors.Is(err, ErrNoDataset) {
			err = s3err.GetBucketErr(s3err.ErrNoSuchBucket, name)
		}
		return nil, grant, g.explain(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.places[key]; known != nil {
		p = known
	}
	g.places[key] = p
	p.home.used = time.Now()
	return p, grant, nil
}

// view is what a version of a dataset holds. The error wraps [fs.ErrNotExist] where
// there is no such version.
func (g *Gateway) view(ctx context.Context, p *place, version string) (*data.View, error) {
	for _, within := range []time.Duration{fresh, 0} {
		known, err := p.heads.read(ctx, time.Now().Add(-within))
		if err != nil {
			return nil, err
		}
		if id, ok := headOf(known, version); ok {
			return g.commit(ctx, p, id)
		}
	}
	name, _, steps := strings.Cut(version, "~")
	if !steps && !hexadecimal(name) {
		return nil, fmt.Errorf("dataset %s has no branch, tag or commit %q: %w", p.name.dataset, version, fs.ErrNotExist)
	}
	c, err := p.Resolve(ctx, version)
	if err != nil {
		return nil, err
	}
	if err := g.led(ctx, p, c.ID); err != nil {
		return nil, err
	}
	return g.commit(ctx, p, c.ID)
}

// headOf is the commit that a branch or a tag is at. Who writes by S3 reads what was
// written: where a commit of the branch is open, it is that.
func headOf(known map[ref.Name]digest.ID, name string) (digest.ID, bool) {
	for _, kind := range []ref.Kind{ref.Open, ref.Branch, ref.Tag} {
		if id, ok := known[ref.Name{Kind: kind, Name: name}]; ok {
			return id, true
		}
	}
	return digest.ID{}, false
}

// hexadecimal says that a name may be that of a commit.
func hexadecimal(name string) bool {
	return len(name) >= 8 && strings.Trim(name, "0123456789abcdef") == ""
}

// led refuses commits that no head of the dataset leads to: all datasets are in one
// store, and who may read this one may not read the others.
func (g *Gateway) led(ctx context.Context, p *place, id digest.ID) error {
	p.mu.Lock()
	known := p.led[id]
	p.mu.Unlock()
	if known {
		return nil
	}
	all, err := p.heads.List(ctx)
	if err != nil {
		return err
	}
	for _, head := range all {
		leads, err := p.Ancestor(ctx, id.String(), head.String())
		if err != nil {
			return err
		}
		if leads {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.led[id] = true
			return nil
		}
	}
	return fmt.Errorf("no branch or tag of dataset %s leads to commit %s: %w", p.name.dataset, id.Short(), fs.ErrNotExist)
}

// commit is what a commit holds.
func (g *Gateway) commit(ctx context.Context, p *place, id digest.ID) (*data.View, error) {
	key := viewName{p.name.namespace, id}
	g.mu.Lock()
	v := g.views[key]
	g.mu.Unlock()
	if v != nil {
		return v, nil
	}
	v, err := p.At(ctx, id.String())
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.views) >= keptViews {
		clear(g.views)
	}
	g.views[key] = v
	return v, nil
}

// heads are the heads of a dataset as they were a moment ago; what the gateway moved
// itself, it knows at once.
type heads struct {
	from ref.Heads

	mu    sync.Mutex
	known map[ref.Name]digest.ID
	// asked is when it was as known says, or before that.
	asked time.Time
	// moves counts the swaps that have ended.
	moves int
}

var _ ref.Heads = (*heads)(nil)

// read is where the heads are, as it was at a time or later. It is only to be read.
func (h *heads) read(ctx context.Context, since time.Time) (map[ref.Name]digest.ID, error) {
	h.mu.Lock() // also while asking: a swap that ends meanwhile counts after it
	defer h.mu.Unlock()
	if h.known != nil && !h.asked.Before(since) {
		return h.known, nil
	}
	asked := time.Now()
	known, err := h.from.List(ctx)
	if err != nil {
		h.known = nil
		return nil, err
	}
	h.known, h.asked = known, asked
	return known, nil
}

// List implements [ref.Heads].
func (h *heads) List(ctx context.Context) (map[ref.Name]digest.ID, error) {
	return h.read(ctx, time.Now().Add(-fresh))
}

// Get implements [ref.Heads].
func (h *heads) Get(ctx context.Context, name ref.Name) (digest.ID, error) {
	known, err := h.List(ctx)
	if err != nil {
		return digest.ID{}, err
	}
	id, ok := known[name]
	if !ok {
		err = fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return id, err
}

// Swap implements [ref.Heads]. While heads are moved, they need not be asked for: a move
// shows them all.
func (h *heads) Swap(ctx context.Context, moves ...ref.Move) error {
	h.mu.Lock()
	before := h.moves
	h.mu.Unlock()
	begun := time.Now()
	all, err := ref.SwapSeeing(ctx, h.from, moves...)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moves++
	switch {
	case err != nil:
		h.known = nil
	case all != nil && h.moves == before+1 && !h.asked.After(begun):
		h.known, h.asked = all, begun
	case h.known != nil:
		// What this one saw may be older than what others, who ended before it, did.
		h.known = moved(h.known, moves)
	}
	return err
}

// moved are heads of which some are elsewhere.
func moved(known map[ref.Name]digest.ID, moves []ref.Move) map[ref.Name]digest.ID {
	out := maps.Clone(known)
	for _, move := range moves {
		if out[move.Name] = move.To; move.To.IsZero() {
			delete(out, move.Name)
		}
	}
	return out
}
