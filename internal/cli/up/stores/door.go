package stores

import (
	"log/slog"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/door"
)

// DoorOptions are those of the door of this machine. API reads past any cache. Keys are nil
// without an S3 gateway; answers may be nil. Whoever serves the door adds how callers are
// identified. Agents do not call here, so there are no reports, orders and shifts: the
// node of this machine has the stores, and workers of stages speak with the foreman.
func (s *Stores) DoorOptions(api client.Client, keys door.Keys, answers door.Answers, log *slog.Logger) door.Options {
	return door.Options{
		API: api, Pods: api, Namespace: v1alpha1.SystemNamespace, Identity: "machine",
		Code: s.depot, Data: s.data, Keys: keys, Answers: answers, Log: log, Now: s.opts.Now,
	}
}
