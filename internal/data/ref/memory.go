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
func (m *Memory) Swap(ctx context.Context, moves ...Move) error {
	err := ctx.Err()
	for _, move := range moves {
		err = errors.Join(err, move.Name.Check())
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, move := range moves {
		if found := m.heads[move.Name]; found != move.From {
			return &MovedError{Name: move.Name, Thought: move.From, Found: found}
		}
	}
	if m.heads == nil {
		m.heads = map[Name]digest.ID{}
	}
	for _, move := range moves {
		if m.heads[move.Name] = move.To; move.To.IsZero() {
			delete(m.heads, move.Name)
		}
	}
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
