// Package faulty is a backend in front of another whose user dies, or whose
// answers fail, at a write that is chosen: what tests go through, one write after
// the other. It must not know what objects mean.
package faulty

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/muster-dev/muster/internal/data/backend"
)

// ErrDead is what everything answers once the user has died.
var ErrDead = errors.New("died here")

// ErrRefused is what one write answers that fails while its user lives on.
var ErrRefused = errors.New("not now")

// Fault is what happens at a write.
type Fault int

// The faults.
const (
	// DieBefore: the write does not happen, and nothing happens any more.
	DieBefore Fault = iota
	// DieAfter: the write happens, nobody hears of it, and nothing happens any more.
	DieAfter
	// RefuseBefore: the write does not happen, and fails.
	RefuseBefore
	// RefuseAfter: the write happens, and fails all the same.
	RefuseAfter
)

// Faults is all of them.
func Faults() []Fault { return []Fault{DieBefore, DieAfter, RefuseBefore, RefuseAfter} }

// String says which it is.
func (f Fault) String() string {
	return [...]string{"die before", "die after", "refuse before", "refuse after"}[f]
}

// Script says at which write what happens; it counts writes of all that it is
// given to.
type Script struct {
	// At is the number of the write, from 1. 0: none.
	At    int
	Fault Fault

	mu     sync.Mutex
	writes int
	dead   bool
}

// Writes is how many there were.
func (s *Script) Writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// Alive is an error once the user has died.
func (s *Script) Alive() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return ErrDead
	}
	return nil
}

// Write does one write, or what the script says instead.
func (s *Script) Write(what string, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return ErrDead
	}
	s.writes++
	if s.writes != s.At {
		return do()
	}
	s.dead = s.Fault == DieBefore || s.Fault == DieAfter
	var err error
	if s.Fault == DieAfter || s.Fault == RefuseAfter {
		err = do()
	}
	answer := ErrRefused
	if s.dead {
		answer = ErrDead
	}
	return fmt.Errorf("write %d, %s: %w", s.writes, what, errors.Join(answer, err))
}

// Backend is a backend in front of another.
type Backend struct {
	Inner  backend.Backend
	Script *Script
	// Reads counts reads, for tests of how many there are.
	mu    sync.Mutex
	reads int
}

// Reads is how many reads there were.
func (b *Backend) Reads() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reads
}

// Put implements [backend.Backend].
func (b *Backend) Put(ctx context.Context, key string, content []byte) error {
	return b.Script.Write("put "+key, func() error { return b.Inner.Put(ctx, key, content) })
}

// Delete implements [backend.Backend].
func (b *Backend) Delete(ctx context.Context, key string) error {
	return b.Script.Write("delete "+key, func() error { return b.Inner.Delete(ctx, key) })
}

// ReadAt implements [backend.Backend].
func (b *Backend) ReadAt(ctx context.Context, key string, offset int64, into []byte) error {
	if err := b.Script.Alive(); err != nil {
		return err
	}
	b.mu.Lock()
	b.reads++
	b.mu.Unlock()
	return b.Inner.ReadAt(ctx, key, offset, into)
}

// Stat implements [backend.Backend].
func (b *Backend) Stat(ctx context.Context, key string) (backend.Info, error) {
	if err := b.Script.Alive(); err != nil {
		return backend.Info{}, err
	}
	b.mu.Lock()
	b.reads++
	b.mu.Unlock()
	return b.Inner.Stat(ctx, key)
}

// List implements [backend.Backend].
func (b *Backend) List(ctx context.Context, prefix string, see func(backend.Info) error) error {
	if err := b.Script.Alive(); err != nil {
		return err
	}
	return b.Inner.List(ctx, prefix, see)
}
