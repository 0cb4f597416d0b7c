package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	upstream "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/agent/hearing"
	"github.com/muster-dev/muster/internal/ahead"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/plan"
	"github.com/muster-dev/muster/internal/cli/top"
	"github.com/muster-dev/muster/internal/cli/why"
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
		parts = append(parts, door.New(door.Options{
			Address: o.door, API: api, Pods: m.GetClient(), Namespace: v1alpha1.SystemNamespace, Identity: o.doorName(),
			Code: in.code, Data: in.data, Orders: given(in.orders), Keys: in.keys, Shifts: in.runs.shifts(m.Elected()), Answers: answers{cache: m.GetClient(), api: api}, Reports: &hearing.Scribe{Pods: m.GetClient(), API: api}, Log: log,
		}))
	}
	for _, part := range parts {
		if err := m.Add(part); err != nil {
			return fmt.Errorf("adding the door: %w", err)
		}
	}
	return nil
}

// doorName is this replica's name among those that have a certificate.
func (o *options) doorName() string {
	if name := o.name(); name != "" {
		return name
	}
	return "muster"
}

// answers are what commands say that somebody may see of the cluster.
type answers struct {
	// cache is what the manager keeps in memory, and api is asked anew.
	cache client.Client
	api   client.Client
}

// fresh shows a training job as it is now, and everything else as the manager
// sees it: who asks has just made the job, or changed it.
type fresh struct {
	client.Client
	api client.Client
}

// Get implements [client.Reader].
func (f fresh) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	switch o.(type) {
	case *v1alpha1.Gang, *v1alpha1.Placement, *v1alpha1.Queue:
		return f.Client.Get(ctx, key, o, opts...)
	}
	return f.api.Get(ctx, key, o, opts...)
}

// List implements [client.Reader]. The manager's cache has no index by which the events of a pod
// are listed.
func (f fresh) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, events := list.(*corev1.EventList); events {
		return f.api.List(ctx, list, opts...)
	}
	return f.Client.List(ctx, list, opts...)
}

// Why implements [door.Answers].
func (a answers) Why(ctx context.Context, namespace, job string) (any, error) {
	answer, err := why.Seen(ctx, fresh{a.cache, a.api}, namespace, job)
	return answer, told(err)
}

// Plan implements [door.Answers].
func (a answers) Plan(ctx context.Context, user string, job *v1alpha1.TrainingJob) (any, error) {
	answer, err := plan.Seen(ctx, fresh{a.cache, a.api}, a.api, user, job)
	return answer, told(err)
}

// Top implements [door.Answers].
func (a answers) Top(ctx context.Context, namespace string) (any, error) {
	report, err := top.Seen(ctx, a.cache, namespace)
	return report, told(err)
}

// told gives a command's error the status that it has at the door.
func told(err error) error {
	var coded *exit.Error
	if !errors.As(err, &coded) {
		return err
	}
	status := http.StatusUnprocessableEntity
	if coded.Code == exit.Missing {
		status = http.StatusNotFound
	}
	return &door.Refusal{Status: status, Text: err.Error()}
}
