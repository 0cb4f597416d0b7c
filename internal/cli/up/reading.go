package up

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/data/cache"
	"github.com/muster-dev/muster/internal/data/mount"
	"github.com/muster-dev/muster/internal/dataset/reading"
)

// makeReader makes what brings the data that jobs read to where they find it.
func (m *machine) makeReader() (*reading.Reader, error) {
	server, err := m.client()
	if err != nil {
		return nil, err
	}
	fetched, err := cache.Open(cache.Options{Dir: m.path("fetched"), Limit: m.config.DataCache.Value(), InUse: reading.InUse(server, m.kept.scope)})
	if err != nil {
		return nil, err
	}
	return reading.New(reading.Options{
		Client: server, Cache: fetched, Scope: m.kept.scope, Log: m.log, Mountable: mount.Available,
		Store: m.kept.data,
	}), nil
}

// client reads from the API server itself.
func (m *machine) client() (client.Client, error) {
	scheme, err := connection.Scheme()
	if err != nil {
		return nil, err
	}
	server, err := client.New(m.plane.ManagerConfig(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return server, nil
}
