package mount

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
)

// readersAhead is how many chunks are read ahead at once, for all readers together.
const readersAhead = 8

// chunks keeps the chunks that were used last, and reads each one once, however many
// want it at the same time. What it gives is only to be read.
type chunks struct {
	// load reads one, checked.
	load func(context.Context, data.Piece) ([]byte, error)
	most int64
	// ctx is the mount's: who waits may leave, and the chunk is read all the same.
	ctx     context.Context
	readers sync.WaitGroup

	mu    sync.Mutex
	bytes int64
	ahead int
	order list.List // of *chunk, the last used first
	known map[digest.ID]*chunk
}

// chunk is one that is there, or on its way until done is closed.
type chunk struct {
	id   digest.ID
	at   *list.Element // nil while it is on its way
	done chan struct{}
	raw  []byte
	err  error
}

func newChunks(ctx context.Context, most int64, load func(context.Context, data.Piece) ([]byte, error)) *chunks {
	return &chunks{load: load, most: most, ctx: ctx, known: map[digest.ID]*chunk{}}
}

// get is a chunk. Who leaves early gets the error of ctx.
func (c *chunks) get(ctx context.Context, p data.Piece) ([]byte, error) {
	c.mu.Lock()
	found := c.known[p.ID]
	switch {
	case found == nil:
		found = c.begin(p, func() {})
	case found.at != nil:
		c.order.MoveToFront(found.at)
	}
	c.mu.Unlock()
	select {
	case <-found.done:
		return found.raw, found.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// prepare begins to read a chunk that will be wanted, unless enough are read.
func (c *chunks) prepare(p data.Piece) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[p.ID] != nil || c.ahead >= readersAhead {
		return
	}
	c.ahead++
	c.begin(p, func() { c.ahead-- })
}

// begin begins to read a chunk; ended is called with the lock once that is done. The
// lock is held.
func (c *chunks) begin(p data.Piece, ended func()) *chunk {
	one := &chunk{id: p.ID, done: make(chan struct{})}
	c.known[p.ID] = one
	c.readers.Go(func() {
		raw, err := c.load(c.ctx, p)
		c.mu.Lock()
		defer c.mu.Unlock()
		ended()
		one.raw, one.err = raw, err
		close(one.done)
		if err != nil {
			delete(c.known, one.id)
			return
		}
		one.at = c.order.PushFront(one)
		c.bytes += int64(len(raw))
		c.shrink()
	})
	return one
}

// shrink lets go of what was used longest ago. The lock is held.
func (c *chunks) shrink() {
	for c.bytes > c.most && c.order.Len() > 1 {
		last := c.order.Remove(c.order.Back()).(*chunk)
		delete(c.known, last.id)
		c.bytes -= int64(len(last.raw))
	}
}

// The pauses between two tries.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// persist tries again what fails for a reason that may pass, as long as the patience
// lasts.
func persist(ctx context.Context, patience time.Duration, try func() error) error {
	deadline := time.Now().Add(patience)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := try()
		if err == nil || lasting(err) || ctx.Err() != nil || time.Now().Add(pause).After(deadline) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// lasting says that another try is of no use.
func lasting(err error) bool {
	return errors.Is(err, pack.ErrDamaged) || errors.Is(err, errNone)
}
