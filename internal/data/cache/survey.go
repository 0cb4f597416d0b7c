package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// surveyBatch is how many names of a folder are read at once.
const surveyBatch = 4096

// survey counts the files below a folder, and finds when the last of them, or of the
// folders, was written; without each, of the folders alone, which costs a tenth. The
// error wraps [fs.ErrNotExist] where there is no folder.
func survey(ctx context.Context, dir string, each bool) (files int64, newest time.Time, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	s := &surveyor{group: group, each: each}
	group.Go(func() error { return s.folder(ctx, dir) })
	err = group.Wait()
	return s.files, s.newest, err
}

// surveyor is one survey; several folders are looked at at once.
type surveyor struct {
	group *errgroup.Group
	each  bool

	mu     sync.Mutex
	files  int64
	newest time.Time
}

func (s *surveyor) folder(ctx context.Context, path string) (err error) {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	s.add(0, info.ModTime())
	for {
		entries, err := dir.ReadDir(surveyBatch)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return fmt.Errorf("reading folder %s: %w", path, err)
		}
		if err := s.batch(ctx, path, entries); err != nil {
			return err
		}
	}
}

// batch looks at some of what is in a folder.
func (s *surveyor) batch(ctx context.Context, path string, entries []fs.DirEntry) error {
	var files int64
	var newest time.Time
	for _, e := range entries {
		if e.IsDir() {
			below := filepath.Join(path, e.Name())
			if !s.group.TryGo(func() error { return s.folder(ctx, below) }) {
				if err := s.folder(ctx, below); err != nil {
					return err
				}
			}
			continue
		}
		files++
		if !s.each {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if at := info.ModTime(); at.After(newest) {
			newest = at
		}
	}
	s.add(files, newest)
	return nil
}

func (s *surveyor) add(files int64, newest time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files += files
	if newest.After(s.newest) {
		s.newest = newest
	}
}
