package dataset

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
)

// away are heads that cannot be read.
type away struct{ ref.Heads }

func (away) List(context.Context) (map[ref.Name]digest.ID, error) {
	return nil, errors.New("the server is away")
}

// TestKeeper drives the loop by its alarm, over a real store: each pass is over
// when the next alarm is set.
func TestKeeper(t *testing.T) {
	store, err := data.Open(t.Context(), data.Options{Backend: &backend.Memory{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	var log bytes.Buffer
	alarms, ring := make(chan time.Duration), make(chan time.Time)
	passes := 0
	k := &Keeper{
		Collect: store.Collect, Heads: away{},
		After: func(d time.Duration) <-chan time.Time {
			select {
			case alarms <- d:
			case <-t.Context().Done():
			}
			return ring
		},
		Collected: func(data.CollectReport) { passes++ },
		Log:       slog.New(slog.NewTextHandler(&log, nil)),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- k.Run(ctx, ready) }()
	select {
	case <-alarms:
		t.Fatal("began before all was ready")
	default:
	}
	close(ready)
	waits := []time.Duration{<-alarms}
	ring <- time.Time{}
	waits = append(waits, <-alarms)
	if passes != 0 || !strings.Contains(log.String(), "the server is away") {
		t.Errorf("%d passes, and the log says %q", passes, log.String())
	}
	k.Heads = &ref.Memory{}
	ring <- time.Time{}
	waits = append(waits, <-alarms)
	cancel()
	if err := <-ended; err != nil || passes != 1 {
		t.Errorf("%d passes, %v", passes, err)
	}
	if diff := cmp.Diff([]time.Duration{KeeperDelay, KeeperEvery, KeeperEvery}, waits); diff != "" {
		t.Error(diff)
	}
}
