package notice

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Board collects changed keys for one listener. Make it with [New] and run it
// with [Board.Run].
type Board struct {
	out  chan string
	wake chan struct{}

	mu      sync.Mutex
	queue   []string
	waiting map[string]bool
	untold  atomic.Bool
}

// New returns an empty board.
func New() *Board {
	return &Board{out: make(chan string), wake: make(chan struct{}, 1), waiting: map[string]bool{}}
}

// Post reports that key changed. It never blocks.
func (b *Board) Post(key string) {
	b.mu.Lock()
	if !b.waiting[key] {
		b.waiting[key] = true
		b.queue = append(b.queue, key)
	}
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Changes is where the listener reads changed keys. It is never closed.
func (b *Board) Changes() <-chan string { return b.out }

// Run hands posted keys to the listener until ctx ends.
func (b *Board) Run(ctx context.Context) {
	for {
		key, ok := b.take()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-b.wake:
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case b.out <- key:
		}
	}
}

// Untold notes that somebody waits for what nobody posts: a store that is away,
// time.
func (b *Board) Untold() { b.untold.Store(true) }

// untold is the key that is posted for those who wait for what nobody posts.
const untold = "what nobody tells"

// RunAsking is Run for a board on which not everything is posted: after Untold
// the listener is told within every.
func (b *Board) RunAsking(ctx context.Context, every time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Run(ctx)
	}()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			<-done
			return
		case <-tick.C:
			if b.untold.Swap(false) {
				b.Post(untold)
			}
		}
	}
}

// take removes the oldest key. From here on the key may be posted anew: a
// change that comes while the listener is being handed this one is news.
func (b *Board) take() (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		return "", false
	}
	key := b.queue[0]
	b.queue = b.queue[1:]
	delete(b.waiting, key)
	return key, true
}
