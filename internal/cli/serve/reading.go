package serve

import (
	"fmt"
	"log/slog"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	upstream "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-dev/muster/internal/controller/trainingjob"
	"github.com/muster-dev/muster/internal/data/warehouse"
	"github.com/muster-dev/muster/internal/dataset/reading"
	"github.com/muster-dev/muster/internal/manager"
)

// reader finds out what jobs read and keeps it, in the stores of their namespaces;
// agents bring it to nodes. Nil: there are no stores, or no agents.
type reader struct{ *reading.Reader }

// openReader makes it.
func (o *options) openReader(config *rest.Config, stores *warehouse.Warehouse, log *slog.Logger) (*reader, error) {
	if stores == nil || !o.agents || o.door == "0" {
		return nil, nil //nolint:nilnil // jobs that read are refused in words then
	}
	scheme, err := manager.Scheme()
	if err != nil {
		return nil, err
	}
	// What a cache shows may be old: a branch would be read as it was before it moved.
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	// Where a node cannot mount, its agent says so.
	mountable := func() error { return nil }
	return &reader{reading.New(reading.Options{Client: api, Store: stores.Store, Log: log, Mountable: mountable, NodeCache: o.data.perNode()})}, nil
}

// asked is who jobs ask for data; nobody where there is no reader.
func (r *reader) asked() trainingjob.Data {
	if r == nil {
		return nil
	}
	return r
}

// addTo has the replica that leads run it.
func (r *reader) addTo(m upstream.Manager) error {
	if r == nil {
		return nil
	}
	if err := m.Add(upstream.RunnableFunc(r.Run)); err != nil {
		return fmt.Errorf("adding what finds out what jobs read: %w", err)
	}
	return nil
}
