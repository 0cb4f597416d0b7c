package backend

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory keeps objects as long as the process lives. It is ready as it is.
type Memory struct {
	mu      sync.RWMutex
	objects map[string]object
}

type object struct {
	content []byte
	stored  time.Time
}

// Put implements [Backend].
func (m *Memory) Put(ctx context.Context, key string, content []byte) error {
	if err := errors.Join(check(key), ctx.Err()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects == nil {
		m.objects = map[string]object{}
	}
	m.objects[key] = object{content: slices.Clone(content), stored: time.Now()}
	return nil
}

func (m *Memory) get(ctx context.Context, doing, key string) (object, error) {
	if err := errors.Join(check(key), ctx.Err()); err != nil {
		return object{}, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	o, ok := m.objects[key]
	if !ok {
		return object{}, fmt.Errorf("%s %s: %w", doing, key, fs.ErrNotExist)
	}
	return o, nil
}

// ReadAt implements [Backend].
func (m *Memory) ReadAt(ctx context.Context, key string, offset int64, into []byte) error {
	o, err := m.get(ctx, "reading", key)
	if err != nil {
		return err
	}
	if offset < 0 || offset+int64(len(into)) > int64(len(o.content)) {
		return fmt.Errorf("reading %s: %d bytes at %d: %w", key, len(into), offset, ErrShort)
	}
	copy(into, o.content[offset:])
	return nil
}

// Stat implements [Backend].
func (m *Memory) Stat(ctx context.Context, key string) (Info, error) {
	o, err := m.get(ctx, "looking for", key)
	if err != nil {
		return Info{}, err
	}
	return Info{Key: key, Size: int64(len(o.content)), Stored: o.stored}, nil
}

// List implements [Backend].
func (m *Memory) List(ctx context.Context, prefix string, see func(Info) error) error {
	if err := check(prefix); err != nil {
		return err
	}
	if !strings.HasSuffix(prefix, "/") {
		return fmt.Errorf("listing %q: a prefix ends in a slash", prefix)
	}
	m.mu.RLock()
	all := maps.Clone(m.objects)
	m.mu.RUnlock()
	for key, o := range all {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := see(Info{Key: key, Size: int64(len(o.content)), Stored: o.stored}); err != nil {
			return err
		}
	}
	return nil
}

// Delete implements [Backend].
func (m *Memory) Delete(ctx context.Context, key string) error {
	if err := errors.Join(check(key), ctx.Err()); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, key)
	return nil
}
