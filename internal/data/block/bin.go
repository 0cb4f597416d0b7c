package block

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

const (
	// touchEvery is how exactly it is known when a block was used last.
	touchEvery = 10 * time.Minute
	// lookEvery is after which part of the limit, as 1/n, it is looked what is there:
	// other processes write, too.
	lookEvery = 16
	// abandonedAfter is how old a file is that was begun and that nobody writes.
	abandonedAfter = time.Hour
	// begun is what the names of files end in that are being written.
	begun = ".new"
)

// bin is the folder, which is kept below its limit.
type bin struct {
	dir   string
	limit int64

	mu sync.Mutex
	// written is how much came since it was looked what is there, room how much may
	// come until the next look.
	written, room int64
}

// used notes that a block is used now.
func (b *bin) used(file *os.File) {
	info, err := file.Stat()
	if now := time.Now(); err == nil && now.Sub(info.ModTime()) > touchEvery {
		_ = os.Chtimes(file.Name(), now, now) // only the order of removal depends on it
	}
}

// write keeps a block, if that is possible.
func (b *bin) write(path string, content []byte) {
	if b.limit < int64(len(content)) || len(content) == 0 {
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return
	}
	file, err := os.CreateTemp(filepath.Dir(path), "*"+begun)
	if err != nil {
		return
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.written += int64(len(content)); b.written > b.room {
		_ = b.clear() // tried again with the next one
	}
}

// tidy looks what is there, and removes what is too much.
func (b *bin) tidy() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.clear()
}

// kept is a block that is there.
type kept struct {
	path string
	size int64
	used time.Time
}

// clear removes what was used longest ago, down to nine tenths of the limit, where
// there is more than the limit. The lock is held.
func (b *bin) clear() error {
	var all []kept
	var total int64
	err := filepath.WalkDir(b.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return gone(err)
		}
		info, err := d.Info()
		if err != nil {
			return gone(err)
		}
		if filepath.Ext(path) == begun {
			if time.Since(info.ModTime()) > abandonedAfter {
				return gone(os.Remove(path))
			}
			return nil
		}
		all = append(all, kept{path, info.Size(), info.ModTime()})
		total += info.Size()
		return nil
	})
	if err != nil {
		return fmt.Errorf("looking at what was fetched: %w", err)
	}
	if total > b.limit {
		slices.SortFunc(all, func(x, y kept) int { return cmp.Or(x.used.Compare(y.used), cmp.Compare(x.path, y.path)) })
		for _, k := range all {
			if total <= b.limit-b.limit/10 {
				break
			}
			if err := gone(os.Remove(k.path)); err != nil {
				return fmt.Errorf("removing what was fetched: %w", err)
			}
			total -= k.size
		}
	}
	b.written, b.room = 0, min(b.limit-total, b.limit/lookEvery)
	return nil
}

// gone makes it no error that somebody else removed something.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
