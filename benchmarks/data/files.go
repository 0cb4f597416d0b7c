package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// randomFile writes a file of random bytes.
func randomFile(path string, size int64) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.CopyN(file, rand.NewChaCha8([32]byte{1}), size)
	return errors.Join(err, file.Close())
}

// manyFiles writes files of random bytes, a thousand to a folder.
func manyFiles(dir string, n, size int) error {
	r := rand.NewChaCha8([32]byte{2})
	buf := make([]byte, size)
	for i := range n {
		folder := filepath.Join(dir, fmt.Sprintf("d%03d", i/1000))
		if i%1000 == 0 {
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return err
			}
		}
		_, _ = r.Read(buf)
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("f%06d", i)), buf, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// flip changes one byte of a file.
func flip(path string, at int64) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	var b [1]byte
	_, err = file.ReadAt(b[:], at)
	b[0] ^= 1
	if err == nil {
		_, err = file.WriteAt(b[:], at)
	}
	return errors.Join(err, file.Close())
}

// editInPlace changes a file and keeps its size and time.
func editInPlace(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := flip(path, info.Size()/2); err != nil {
		return err
	}
	return os.Chtimes(path, time.Time{}, info.ModTime())
}

func syncAll(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}

// forget drops every file below a path from the page cache; warm reads them all.
func forget(path string) error {
	return each(path, func(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) })
}

func warm(path string) error {
	return each(path, func(f *os.File) error {
		_, err := io.Copy(io.Discard, f)
		return err
	})
}

func each(path string, do func(*os.File) error) error {
	return filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(do(f), f.Close())
	})
}
