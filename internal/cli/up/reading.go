package up

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/cache"
	"github.com/muster-dev/muster/internal/data/mount"
	"github.com/muster-dev/muster/internal/dataset/reading"
)

// makeReader makes what brings the data that jobs read to where they find it.
func (m *machine) makeReader() (*reading.Reader, error) {
	scheme, err := connection.Scheme()
	if err != nil {
		return nil, err
	}
	server, err := client.New(m.plane.ManagerConfig(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	fetched, err := cache.Open(cache.Options{Dir: m.path("fetched"), Limit: m.config.DataCache.Value(), InUse: reading.InUse(server, oneScope)})
	if err != nil {
		return nil, err
	}
	return reading.New(reading.Options{
		Client: server, Cache: fetched, Scope: oneScope, Log: m.log, Mountable: mount.Available,
		Store: func(context.Context, string) (*data.Store, error) { return m.data, nil },
	}), nil
}
