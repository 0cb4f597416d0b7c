package foreman

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// barrier brings to disk what was written: once for all who come while the time
// before is under way.
type barrier struct {
	dir string

	// begun counts the times that were begun.
	begun atomic.Int64

	mu sync.Mutex
	// ended is the last that succeeded.
	ended int64
}

// sync returns once everything that was written before it was called is on disk.
func (b *barrier) sync() error {
	before := b.begun.Load()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended > before {
		return nil // it was begun after this was called
	}
	number := b.begun.Add(1)
	if err := flush(b.dir); err != nil {
		return err
	}
	b.ended = number
	return nil
}

// flush has the file system that a folder is on write everything down.
func flush(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("bringing what arrived to disk: %w", err)
	}
	defer func() { _ = folder.Close() }()
	if err := unix.Syncfs(int(folder.Fd())); err != nil {
		return fmt.Errorf("bringing what arrived to disk: %w", err)
	}
	return nil
}
