package up

import (
	"context"
	"path/filepath"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/cli/data/opening"
	"github.com/muster-dev/muster/internal/cli/up/outfitter"
	"github.com/muster-dev/muster/internal/cli/up/stores"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/warehouse"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/environment/source"
	"github.com/muster-dev/muster/internal/gateway"
	"github.com/muster-dev/muster/internal/gateway/registry"
	"github.com/muster-dev/muster/internal/node/volume"
)

// A Muster of one user has one store for all namespaces. The node and the controllers
// name the namespace of a pod or job wherever they ask for code, data, mounts or
// environments. The types and functions here and [gateway.One] ignore it. One that several
// users share has the stores of package stores: see shared.go.

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
func (p prepared) run(ctx context.Context, namespace string, argv ...string) (string, error) {
	return p.builder.Ask(ctx, namespace, argv...)
}

// oneScope is [reading.Options.Scope], and [roster.Order.Source]: all namespaces share what
// was fetched.
func oneScope(string) string { return "" }

// single are the stores of a Muster of one user.
type single struct {
	m    *machine
	code *source.Store
	all  *data.Store
}

// openSingle opens the store of code, which the builder needs.
func (m *machine) openSingle() (*holdings, error) {
	if err := stores.CheckSingle(string(m.home)); err != nil {
		return nil, err
	}
	code, err := source.Open(m.path("code"))
	if err != nil {
		return nil, err
	}
	// One user: who asks for a script reaches this machine's own servers anyway.
	fetcher, err := source.NewFetcher(source.FetcherOptions{Store: code, Inner: true})
	if err != nil {
		return nil, err
	}
	s := &single{m: m, code: code}
	return &holdings{
		open: s.open, close: s.close,
		sources: sources{fetcher, code}, snapshots: sources{store: code},
		environments: func(b *environment.Builder) volume.Environments { return prepared{b} },
		outfit:       func(o *outfitter.Outfitter) stores.Outfitter { return o },
		data:         s.data, results: s.data, scope: oneScope,
		objects: s.objects, vault: func(client.Client) *registry.Vault { return nil },
		keeper: s.keeper, collector: s.collector,
		run: func(ctx context.Context) error { return named("the fetcher of scripts", fetcher.Run(ctx)) },
	}, nil
}

// open opens the store of data.
func (s *single) open(ctx context.Context) (err error) {
	s.all, err = opening.OpenFolder(ctx, string(s.m.home))
	return err
}

func (s *single) data(context.Context, string) (*data.Store, error) { return s.all, nil }

func (s *single) close() error {
	if s.all == nil {
		return nil
	}
	return s.all.Close()
}

// objects are the one store, with the parts of files beside it.
func (s *single) objects() (gateway.Stores, error) {
	folder := s.m.path(opening.Folder)
	uploads, err := backend.OpenFolder(folder)
	if err != nil {
		return nil, err
	}
	if err := dropFolders(filepath.Join(folder, warehouse.Uploads), time.Now()); err != nil {
		s.m.log.Warn("removing uploads of former versions", "err", err)
	}
	return gateway.One{All: s.all, Uploads: uploads}, nil
}
