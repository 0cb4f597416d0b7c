package account

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// maxKept bounds the answers of a cache.
const maxKept = 10_000

// kept is an answer of the directory.
type kept[V any] struct {
	value V
	known bool
	// err is set where the directory was away.
	err error
	// learned is when value was last confirmed, until is when it is asked again.
	learned, until time.Time
}

// cache keeps answers by key, and asks once for callers that come together.
type cache[V any] struct {
	directory *Directory
	// stale allows known answers to outlast a directory that is away.
	stale bool

	mu      sync.Mutex
	answers map[string]kept[V]
	flights singleflight.Group
}

func (c *cache[V]) open(d *Directory, stale bool) {
	c.directory, c.stale, c.answers = d, stale, map[string]kept[V]{}
}

// lookup asks the directory. The error wraps ErrAway.
type lookup[V any] func(context.Context) (value V, known bool, err error)

// get returns the answer for a key, and waits for it.
func (c *cache[V]) get(ctx context.Context, key string, ask lookup[V]) (kept[V], error) {
	if answer, fresh := c.kept(key); fresh {
		return answer, answer.err
	}
	select {
	case result := <-c.start(key, ask):
		answer := result.Val.(kept[V])
		return answer, answer.err
	case <-ctx.Done():
		return kept[V]{}, ctx.Err()
	}
}

// peek returns what is known for a key, and starts a lookup where that is not fresh.
func (c *cache[V]) peek(key string, ask lookup[V]) kept[V] {
	answer, fresh := c.kept(key)
	if !fresh {
		c.start(key, ask)
	}
	return answer
}

func (c *cache[V]) kept(key string) (answer kept[V], fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer, there := c.answers[key]
	return answer, there && c.directory.options.Now().Before(answer.until)
}

// start asks the directory in a goroutine that [Directory.Close] waits for.
func (c *cache[V]) start(key string, ask lookup[V]) <-chan singleflight.Result {
	return c.flights.DoChan(key, func() (any, error) {
		if answer, fresh := c.kept(key); fresh {
			return answer, nil // a caller of before has brought it
		}
		d := c.directory
		if !d.begin() {
			return kept[V]{err: fmt.Errorf("%w: it is closed", ErrAway)}, nil
		}
		defer d.running.Done()
		value, known, err := ask(d.ctx)
		return c.learn(key, kept[V]{value: value, known: known, err: err}), nil
	})
}

// learn keeps an answer.
func (c *cache[V]) learn(key string, answer kept[V]) kept[V] {
	o := c.directory.options
	now := o.Now()
	answer.learned = now
	c.mu.Lock()
	defer c.mu.Unlock()
	switch before := c.answers[key]; {
	case answer.err != nil && c.stale && before.known && now.Sub(before.learned) < o.Stale:
		answer = before
		answer.until = now.Add(o.Away)
	case answer.err != nil:
		answer.until = now.Add(o.Away)
	case answer.known:
		answer.until = now.Add(o.Known)
	default:
		answer.until = now.Add(o.Unknown)
	}
	if _, there := c.answers[key]; !there && len(c.answers) >= maxKept {
		c.makeRoom(now)
	}
	c.answers[key] = answer
	return answer
}

// makeRoom forgets the answers that are due, or any one.
func (c *cache[V]) makeRoom(now time.Time) {
	for key, answer := range c.answers {
		if !now.Before(answer.until) {
			delete(c.answers, key)
		}
	}
	for key := range c.answers {
		if len(c.answers) < maxKept {
			return
		}
		delete(c.answers, key)
	}
}
