package up

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/cli/up/outfitter"
	"github.com/muster-dev/muster/internal/cli/up/stores"
	"github.com/muster-dev/muster/internal/controller/pipeline"
	"github.com/muster-dev/muster/internal/controller/trainingjob"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/door"
	"github.com/muster-dev/muster/internal/environment"
	"github.com/muster-dev/muster/internal/gateway"
	"github.com/muster-dev/muster/internal/gateway/registry"
	"github.com/muster-dev/muster/internal/node/volume"
)

// holdings are the stores of code, data and environments of a machine: those of a [single]
// or a [shared] one.
type holdings struct {
	// open opens what was not opened at once, close closes all.
	open  func(ctx context.Context) error
	close func() error
	// sources are code for the controllers, snapshots for the node and builds.
	sources   library
	snapshots snapshots
	// environments are those of a builder as the node sees them, and outfit is the
	// outfitter as the controllers see it.
	environments func(*environment.Builder) volume.Environments
	outfit       func(*outfitter.Outfitter) stores.Outfitter
	// data is the store of data of a namespace, and results the same for results of
	// pipelines.
	data, results func(ctx context.Context, namespace string) (*data.Store, error)
	// scope is the name under which data that a namespace reads is cached and mounted.
	scope func(namespace string) string
	// objects are the stores as the S3 gateway sees them, and vault has its access keys. No
	// vault: they are in the namespaces.
	objects func() (gateway.Stores, error)
	vault   func(client.Client) *registry.Vault
	// keeper and collector remove what nothing needs.
	keeper, collector func() (runner, error)
	// run serves the controllers until ctx ends.
	run func(ctx context.Context) error
	// door are the options of the door. Nil: its one user has the files.
	door func(api client.Client, answers door.Answers) door.Options
}

// runner works until ctx ends, once ready is closed.
type runner func(ctx context.Context, ready <-chan struct{}) error

// library is code for the controllers.
type library interface {
	trainingjob.Sources
	pipeline.Sources
}

// snapshots is code for the node and builds.
type snapshots interface {
	volume.Code
	environment.Code
}

// openHoldings opens the stores of this Muster: by namespace if several users share it.
func (m *machine) openHoldings() (*holdings, error) {
	if m.shared {
		return m.openShared()
	}
	return m.openSingle()
}
