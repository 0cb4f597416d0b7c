package serve

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	upstream "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/agent/hearing"
	"github.com/muster-dev/muster/internal/ahead"
	"github.com/muster-dev/muster/internal/cli/answers"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/data/warehouse"
	"github.com/muster-dev/muster/internal/door"
	"github.com/muster-dev/muster/internal/door/depot"
	"github.com/muster-dev/muster/internal/snapshot"
)

// rooms are what lies behind the door; nil: nothing is kept.
type rooms struct {
	code    *depot.Depot
	library *depot.Sources
	data    *warehouse.Warehouse
	// orders are for data that is fetched ahead.
	orders *ahead.Orders
	runs   *stages
	keys   door.Keys
}

// orders are those of data that is fetched ahead; nil: none is.
func (o *options) orders(stores *warehouse.Warehouse) *ahead.Orders {
	if !o.data.ahead || !o.agents || stores == nil || o.door == "0" {
		return nil
	}
	return ahead.New(nil)
}

// soon is who is told of those that start before long.
func soon(orders *ahead.Orders) snapshot.Ahead {
	if orders == nil {
		return nil
	}
	return orders
}

// given is who says what is fetched ahead.
func given(orders *ahead.Orders) door.Orders {
	if orders == nil {
		return nil
	}
	return orders
}

// addDoor adds the door to the manager, and what looks after the code.
func (o *options) addDoor(m upstream.Manager, in rooms, log *slog.Logger) error {
	parts := []upstream.Runnable{}
	if in.code != nil {
		parts = append(parts, in.library, &door.Upkeep{Code: in.code, Jobs: m.GetClient(), Log: log})
	}
	if o.door != "0" {
		// What is read once and rarely is not kept in memory.
		api, err := client.New(m.GetConfig(), client.Options{HTTPClient: m.GetHTTPClient(), Scheme: m.GetScheme(), Mapper: m.GetRESTMapper()})
		if err != nil {
			return fmt.Errorf("making a client: %w", err)
		}
		for name, index := range map[string]client.IndexerFunc{hearing.ByNode: hearing.IndexByNode, hearing.DataByNode: hearing.IndexDataByNode} {
			if err := m.GetFieldIndexer().IndexField(context.Background(), &corev1.Pod{}, name, index); err != nil {
				return fmt.Errorf("indexing the pods of nodes: %w", err)
			}
		}
		says := answers.New(answers.Options{Cache: m.GetClient(), API: api, State: o.state})
		parts = append(parts, door.New(door.Options{
			Address: o.door, API: api, Pods: m.GetClient(), Namespace: v1alpha1.SystemNamespace, Identity: o.doorName(),
			Code: in.code, Data: in.data, Orders: given(in.orders), Keys: in.keys, Shifts: in.runs.shifts(m.Elected()), Answers: says, Health: says, Reports: &hearing.Scribe{Pods: m.GetClient(), API: api}, Log: log,
		}))
	}
	for _, part := range parts {
		if err := m.Add(part); err != nil {
			return fmt.Errorf("adding the door: %w", err)
		}
	}
	return nil
}

// state is what the manager of a cluster says of itself.
func (o *options) state() instance.State {
	return instance.State{Phase: instance.Ready, Version: o.factory.Version}
}

// doorName is this replica's name among those that have a certificate.
func (o *options) doorName() string {
	if name := o.name(); name != "" {
		return name
	}
	return "muster"
}
