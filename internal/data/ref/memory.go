package ref

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"sync"

	"github.com/muster-dev/muster/internal/data/digest"
)

// Memory keeps heads as long as the process lives. It is ready as it is.
type Memory struct {
	mu    sync.Mutex
	heads map[Name]digest.ID
}

// Get implements [Heads].
func (m *Memory) Get(ctx context.Context, name Name) (digest.ID, error) {
	if err := errors.Join(name.Check(), ctx.Err()); err != nil {
		return digest.ID{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	id, ok := m.heads[name]
	if !ok {
		return digest.ID{}, fmt.Errorf("there is no %s: %w", name, fs.ErrNotExist)
	}
	return id, nil
}

// Swap implements [Heads].
func (m *Memory) Swap(ctx context.Context, name Name, from, to digest.ID) error {
	if err := errors.Join(name.Check(), ctx.Err()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := m.heads[name]; found != from {
		return &MovedError{Name: name, Thought: from, Found: found}
	}
	if to.IsZero() {
		delete(m.heads, name)
		return nil
	}
	if m.heads == nil {
		m.heads = map[Name]digest.ID{}
	}
	m.heads[name] = to
	return nil
}

// List implements [Heads].
func (m *Memory) List(ctx context.Context) (map[Name]digest.ID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := maps.Clone(m.heads)
	if all == nil {
		all = map[Name]digest.ID{}
	}
	return all, ctx.Err()
}
