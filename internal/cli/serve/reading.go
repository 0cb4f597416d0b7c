package serve

import (
	"context"
	"fmt"
	"log/slog"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/dataset/reading"
	"github.com/muster-dev/muster/internal/manager"
)

// openReader makes what finds out and keeps what jobs read, in the stores of their
// namespaces; agents bring it to nodes. Nil: there are no agents, and jobs that read
// any are refused in words.
func (o *options) openReader(config *rest.Config, stores func(ctx context.Context, namespace string) (*data.Store, error), log *slog.Logger) (*reading.Reader, error) {
	if !o.agents || o.door == "0" {
		return nil, nil //nolint:nilnil // no agents are no error
	}
	scheme, err := manager.Scheme()
	if err != nil {
		return nil, err
	}
	// What a cache shows may be old: a branch that was just moved would be read as it was.
	api, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return reading.New(reading.Options{Client: api, Store: stores, Log: log}), nil
}
