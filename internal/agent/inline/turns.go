package inline

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// turns let one request at a time at each volume. A kubelet that was not
// answered in time asks again, or takes the volume away, while the request before
// is still at work: what that mounted then nobody would unmount.
type turns struct {
	mu sync.Mutex
	// busy are the volumes that a request is at, with what is closed when it ends.
	busy map[string]chan struct{}
}

func newTurns() *turns { return &turns{busy: map[string]chan struct{}{}} }

// take waits for a turn at a volume; call the result afterwards. Who has given up
// gets none.
func (t *turns) take(ctx context.Context, volume string) (leave func(), err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t.mu.Lock()
		other := t.busy[volume]
		if other == nil {
			mine := make(chan struct{})
			t.busy[volume] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				delete(t.busy, volume)
				t.mu.Unlock()
				close(mine)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
		}
	}
}

// intercept has requests about a volume wait for their turn.
func (t *turns) intercept(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	about, ok := request.(interface{ GetVolumeId() string })
	if !ok {
		return handle(ctx, request)
	}
	leave, err := t.take(ctx, about.GetVolumeId())
	if err != nil {
		return nil, status.FromContextError(err).Err()
	}
	defer leave()
	return handle(ctx, request)
}
