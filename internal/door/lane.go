package door

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// patience is for how long a request waits for its turn.
const patience = 10 * time.Second

// lane bounds how many requests are served at once, altogether and of each
// caller: nobody who is slow keeps all others out.
type lane struct {
	slots chan struct{}
	each  int

	mu sync.Mutex
	of map[string]int
}

func newLane(wide, each int) *lane {
	return &lane{slots: make(chan struct{}, wide), each: each, of: map[string]int{}}
}

// lanes are those of the door.
type lanes struct {
	// up is for code that is sent; each holds up to 16 MiB of it in memory.
	up *lane
	// down is for code that is read; each may hold as much.
	down *lane
	// answer is for looks at the whole cluster.
	answer *lane
	// report is for what agents say of pods, some writes each.
	report *lane
}

func newLanes() lanes {
	return lanes{up: newLane(6, 2), down: newLane(24, 8), answer: newLane(4, 2), report: newLane(8, 1)}
}

// busy is what those are told who have to come again.
func busy(text string) error {
	return &Refusal{Status: http.StatusTooManyRequests, Text: text + ": try again in a moment", RetryAfter: 2 * time.Second}
}

// in waits for a turn of somebody; call the result afterwards.
func (l *lane) in(ctx context.Context, who string) (out func(), err error) {
	if !l.count(who, 1) {
		return nil, busy("the manager is still at other requests of yours")
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case l.slots <- struct{}{}:
		return func() {
			<-l.slots
			l.count(who, -1)
		}, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = busy("the manager is busy with others' requests")
	}
	l.count(who, -1)
	return nil, err
}

// count counts requests of somebody; false where there are enough.
func (l *lane) count(who string, by int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.of[who] + by
	if n > l.each {
		return false
	}
	if l.of[who] = n; n == 0 {
		delete(l.of, who)
	}
	return true
}
