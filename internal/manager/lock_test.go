package manager

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// counted counts the writes of a lock, or refuses them.
type counted struct {
	resourcelock.Interface
	writes int
	err    error
}

func (c *counted) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	c.writes++
	return c.err
}

// TestSparing: a leader that is asked twice a second to renew its lease writes it every two
// seconds, and writes every other change at once.
func TestSparing(t *testing.T) {
	clock := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	inner := &counted{}
	s := &sparing{Interface: inner, every: 2 * time.Second, now: func() time.Time { return clock }}
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "one", LeaseDurationSeconds: 15, AcquireTime: metav1.NewTime(clock)}
	update := func(want int) {
		t.Helper()
		record.RenewTime = metav1.NewTime(clock)
		if err := s.Update(t.Context(), record); !errors.Is(err, inner.err) || inner.writes != want {
			t.Fatalf("%d writes, want %d: %v", inner.writes, want, err)
		}
	}
	for range 120 { // a minute
		if err := s.Update(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		clock = clock.Add(500 * time.Millisecond)
		record.RenewTime = metav1.NewTime(clock)
	}
	if inner.writes != 30 {
		t.Fatalf("%d writes in a minute, want 30", inner.writes)
	}
	update(31)
	update(31)
	record.HolderIdentity = "" // let go of
	update(32)
	record.HolderIdentity, record.LeaderTransitions = "one", 1 // taken again
	update(33)
	inner.err = errors.New("lost")
	record.LeaderTransitions = 2
	update(34)
	update(35) // a write that failed is tried again at once
	inner.err = nil
	update(36)
	update(36)
}
