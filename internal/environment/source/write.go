package source

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// writeTemp writes a temporary file whose content survives a loss of power,
// and returns its path.
func (s *Store) writeTemp(name string, content func(io.Writer) error) (string, error) {
	suffix := make([]byte, 8)
	_, _ = rand.Read(suffix) // never fails
	temp := filepath.Join(s.dir, tempDir, name+"."+hex.EncodeToString(suffix))
	out, err := s.disk.create(temp)
	if err != nil {
		return "", full(err)
	}
	err = content(out)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		_ = os.Remove(temp)
		return "", full(err)
	}
	return temp, nil
}

// putTree stores an encoded tree, or reserves the one that is there. All blobs
// that it names are stored by now.
func (s *Store) putTree(name string, data []byte) error {
	final := s.path(treesDir, name)
	if info, err := os.Lstat(final); err == nil && info.Size() == int64(len(data)) {
		return s.disk.touch(final, time.Now())
	}
	temp, err := s.writeTemp(name, func(out io.Writer) error {
		_, err := out.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	shard := filepath.Dir(final)
	if err := s.disk.mkdir(shard); err != nil {
		return err
	}
	if err := s.disk.rename(temp, final); err != nil {
		return err
	}
	return s.syncDirs(map[string]bool{shard: true, filepath.Dir(shard): true})
}

// full says what to do about a disk that is full or read-only.
func full(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("the disk that holds Muster's data folder is full; free some space and try again: %w", err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the disk that holds Muster's data folder is read-only: %w", err)
	}
	return err
}

// snapshotFile stores one file that nobody else knows of, without an index.
func (s *Store) snapshotFile(ctx context.Context, path string, limit int64) (Result, error) {
	return s.snapshot(ctx, path, Options{MaxBytes: limit, MaxFiles: 1}, false)
}
