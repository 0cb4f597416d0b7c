package manager

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// sparing is a lock that renews its lease less often than the election asks. The election has one
// period for two things: the reads of waiting replicas, which decide how fast one takes over, and
// the writes of the leader.
type sparing struct {
	resourcelock.Interface
	// every is the least time between two renewals.
	every time.Duration
	now   func() time.Time

	mu      sync.Mutex
	written time.Time
	last    resourcelock.LeaderElectionRecord
}

// Update writes the lease, unless it would only renew it and was written a moment ago.
func (s *sparing) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if renews(s.last, record) && s.now().Sub(s.written) < s.every {
		return nil
	}
	s.last, s.written = resourcelock.LeaderElectionRecord{}, time.Time{}
	at := s.now()
	if err := s.Interface.Update(ctx, record); err != nil {
		return err
	}
	s.last, s.written = record, at
	return nil
}

// renews reports that two records differ in the time of the renewal alone.
func renews(was, is resourcelock.LeaderElectionRecord) bool {
	was.RenewTime = is.RenewTime
	return was.HolderIdentity != "" && was == is
}

// renewals is the number of renewals within the duration of a lease. With leases of 15 s
// that is one in 2 s, as other controllers of Kubernetes do.
const renewals = 7.5

// lock makes the lock of the election.
func (o Options) lock(config *rest.Config, renew time.Duration) (resourcelock.Interface, error) {
	// Two managers in one process are two to the lease.
	id := resourcelock.ResourceLockConfig{Identity: o.Identity + "_" + string(uuid.NewUUID())}
	inner, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.Namespace, LeaseName, id, rest.AddUserAgent(rest.CopyConfig(config), "leader-election"), renew)
	if err != nil {
		return nil, fmt.Errorf("making the lock of the election: %w", err)
	}
	return &sparing{Interface: inner, every: time.Duration(float64(o.LeaseDuration) / renewals), now: time.Now}, nil
}
