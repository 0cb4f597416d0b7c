package gateway

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/gateway/upload"
)

const (
	// restEvery is how often the gateway looks what nobody uses any more.
	restEvery = time.Minute
	// homeIdle is after which time a namespace is forgotten of which nobody asks.
	homeIdle = time.Hour
)

// Stores has the store of each namespace.
type Stores interface {
	// Store is the store of a namespace. The gateway does not close it.
	Store(ctx context.Context, namespace string) (*data.Store, error)
	// Objects has the parts of files on their way into that store, below
	// warehouse.Uploads. Whoever serves the namespace has the same.
	Objects(namespace string) (backend.Streamer, error)
	// Reserve refuses a namespace that would keep more than it may.
	Reserve(ctx context.Context, namespace string, more int64) error
	// Namespaces are those of which anything may be there.
	Namespaces(ctx context.Context) ([]string, error)
}

// One is one store for all namespaces, as a machine has it.
type One struct {
	// All is the store, and Uploads has the parts of files.
	All     *data.Store
	Uploads backend.Streamer
}

var _ Stores = One{}

// Store implements [Stores].
func (o One) Store(context.Context, string) (*data.Store, error) { return o.All, nil }

// Objects implements [Stores].
func (o One) Objects(string) (backend.Streamer, error) { return o.Uploads, nil }

// Reserve implements [Stores]: nothing bounds it.
func (One) Reserve(context.Context, string, int64) error { return nil }

// Namespaces implements [Stores]: one stands for all.
func (One) Namespaces(context.Context) ([]string, error) { return []string{""}, nil }

// home is what is served of one namespace.
type home struct {
	store   *data.Store
	uploads upload.Store
	leases  leases
	used    time.Time // guarded by the gateway's mu
}

// home is that of a namespace.
func (g *Gateway) home(ctx context.Context, namespace string) (*home, error) {
	g.mu.Lock()
	known := g.homes[namespace]
	g.mu.Unlock()
	if known != nil {
		return known, nil
	}
	store, err := g.o.Stores.Store(ctx, namespace)
	if err != nil {
		return nil, err
	}
	objects, err := g.o.Stores.Objects(namespace)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.homes[namespace]; known != nil {
		return known, nil // of somebody who was faster
	}
	h := &home{store: store, uploads: upload.Store{Objects: objects}, leases: leases{store: store}, used: time.Now()}
	g.homes[namespace] = h
	return h, nil
}

// rest gives leases back that nobody uses, and forgets namespaces.
func (g *Gateway) rest(ctx context.Context, now time.Time) {
	for _, h := range g.known() {
		h.leases.rest(ctx, now)
	}
	g.forget(now)
}

// known are the namespaces that are served.
func (g *Gateway) known() []*home {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Values(g.homes))
}

// forget forgets the namespaces of which nobody has asked for long, unless somebody
// still writes there. Who has one in hand may go on: the head of a branch is where they
// meet.
func (g *Gateway) forget(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for namespace, h := range g.homes {
		if now.Sub(h.used) > homeIdle && h.leases.retire() {
			delete(g.homes, namespace)
		}
	}
	for name, p := range g.places {
		if g.homes[name.namespace] != p.home {
			delete(g.places, name)
		}
	}
	for name := range g.lanes {
		if g.places[name.placeName] == nil {
			delete(g.lanes, name)
		}
	}
	for name := range g.views {
		if g.homes[name.namespace] == nil {
			delete(g.views, name)
		}
	}
}

// leave gives all leases back.
func (g *Gateway) leave(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.homes {
		h.leases.close(ctx)
	}
}

// sweep removes the uploads that nobody completes, once in a while until ctx ends.
func (g *Gateway) sweep(ctx context.Context) {
	every := time.NewTicker(upload.SweepEvery)
	defer every.Stop()
	for {
		if err := g.sweepAll(ctx, time.Now()); err != nil && ctx.Err() == nil {
			g.o.Log.Warn("removing uploads that nobody completed", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

func (g *Gateway) sweepAll(ctx context.Context, now time.Time) error {
	all, err := g.o.Stores.Namespaces(ctx)
	for _, namespace := range all {
		objects, failed := g.o.Stores.Objects(namespace)
		if failed == nil {
			failed = upload.Store{Objects: objects}.Sweep(ctx, now)
		}
		err = errors.Join(err, failed)
	}
	return err
}
