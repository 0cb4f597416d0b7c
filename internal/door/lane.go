package door

import (
	"context"
	"net/http"
	"time"
)

// patience is for how long a request waits for its turn.
const patience = 10 * time.Second

// lane bounds how many requests are served at once.
type lane chan struct{}

func newLane(wide int) lane { return make(lane, wide) }

// lanes are those of the door.
type lanes struct {
	// up is for code that is sent; each holds up to 16 MiB of it in memory.
	up lane
	// down is for code that is read.
	down lane
	// answer is for looks at the whole cluster.
	answer lane
}

func newLanes() lanes { return lanes{up: newLane(8), down: newLane(64), answer: newLane(2)} }

// in waits for a turn; call out afterwards.
func (l lane) in(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return &Refusal{Status: http.StatusTooManyRequests, Text: "the manager is busy with others' requests: try again in a moment", RetryAfter: 5 * time.Second}
	}
}

func (l lane) out() { <-l }
