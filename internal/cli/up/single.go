package up

import (
	"context"

	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/source"
)

// A Muster of one user has one store for all namespaces. The node and the controllers
// name the namespace of a pod or job wherever they ask for code, data, mounts or
// environments. The types and functions here, [mounts.Mount] and [gateway.One] ignore it.

// sources is the fetcher and the store of code as the controllers, the node and builds see them.
type sources struct {
	*source.Fetcher
	store *source.Store
}

// Has reports whether a snapshot is stored.
func (s sources) Has(_, digest string) (bool, error) { return s.store.Has(digest), nil }

// Contains reports whether a stored snapshot holds a file.
func (s sources) Contains(_, digest, path string) (bool, error) {
	return s.store.Contains(digest, path)
}

// Part returns a file or folder of a stored snapshot.
func (s sources) Part(_, digest, path string) (source.Part, error) { return s.store.Part(digest, path) }

// Files are the files of a stored snapshot.
func (s sources) Files(_, digest string) (map[string]string, error) { return s.store.Files(digest) }

// Checkout implements volume.Code.
func (s sources) Checkout(ctx context.Context, _, digest, dir string) error {
	return s.store.Checkout(ctx, digest, dir)
}

// CheckoutPart implements environment.Code.
func (s sources) CheckoutPart(ctx context.Context, _, digest, path, dst string) error {
	return s.store.CheckoutPart(ctx, digest, path, dst)
}

// prepared is the builder of environments as the node sees it.
type prepared struct{ builder *environment.Builder }

// Path implements volume.Environments.
func (p prepared) Path(_, key string) (string, error) { return p.builder.Path(key) }

// Bench implements volume.Environments.
func (p prepared) Bench(_, key, who string) (string, error) { return p.builder.Bench(key, who) }

// run is pipeline.Machine.Run.
func (p prepared) run(ctx context.Context, _ string, argv ...string) (string, error) {
	return p.builder.Ask(ctx, argv...)
}

// oneScope is [reading.Options.Scope]: all namespaces share what was fetched.
func oneScope(string) string { return "" }
