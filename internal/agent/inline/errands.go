package inline

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/singleflight"
)

// ErrEnded is said to who asks a driver that ends.
var ErrEnded = errors.New("the agent is stopping; it is asked for again")

// Errands are those under way, each once however many want it. They go on when who
// asked gives up, and end with the driver.
type Errands struct {
	group singleflight.Group
	life  context.Context //nolint:containedctx // that of the driver, which is longer than any request's
	end   context.CancelFunc

	mu      sync.Mutex
	ended   bool
	running sync.WaitGroup
}

// NewErrands returns what is to be stopped with the driver.
func NewErrands() *Errands {
	e := &Errands{}
	e.life, e.end = context.WithCancel(context.Background())
	return e
}

// Do waits until the errand of a name is done, which it begins if nobody did. Its
// context is the driver's.
func (e *Errands) Do(ctx context.Context, name string, errand func(context.Context) error) error {
	result := e.group.DoChan(name, func() (any, error) {
		if !e.begin() {
			return nil, ErrEnded
		}
		defer e.running.Done()
		return nil, errand(e.life)
	})
	select {
	case r := <-result:
		return r.Err
	case <-ctx.Done():
		return fmt.Errorf("it is still on its way: %w", ctx.Err())
	}
}

// begin reports whether an errand may begin; call running.Done once it has ended.
func (e *Errands) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.ended {
		e.running.Add(1)
	}
	return !e.ended
}

// Stop ends all errands, and waits until they have.
func (e *Errands) Stop() {
	e.mu.Lock()
	e.ended = true
	e.mu.Unlock()
	e.end()
	e.running.Wait()
}
