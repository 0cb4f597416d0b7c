package shelf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/muster-dev/muster/internal/osfile"
)

// tempDir is the folder of what is being written. No key begins with a dot.
const tempDir = ".incoming"

// abandonedAfter is after how long what is being written is nobody's any more.
const abandonedAfter = 24 * time.Hour

// Folder is a shelf in a folder, such as that of a mounted claim.
type Folder struct{ dir string }

// OpenFolder opens the shelf in dir, makes what is missing of it, and removes
// what writers left there that died long ago.
func OpenFolder(dir string) (*Folder, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		err = osfile.MakeFolder(abs, 0o700)
	}
	if err == nil {
		err = osfile.MakeFolder(filepath.Join(abs, tempDir), 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the store of code in %s: %w", dir, err)
	}
	f := &Folder{dir: abs}
	entries, err := os.ReadDir(filepath.Join(abs, tempDir))
	if err != nil {
		return nil, fmt.Errorf("opening the store of code in %s: %w", dir, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > abandonedAfter {
			_ = os.Remove(filepath.Join(abs, tempDir, e.Name()))
		}
	}
	return f, nil
}

func (f *Folder) path(key string) (string, error) {
	if err := check(key); err != nil {
		return "", err
	}
	return filepath.Join(f.dir, filepath.FromSlash(key)), nil
}

// Put implements [Shelf].
func (f *Folder) Put(ctx context.Context, key string, size int64, content io.Reader) error {
	to, err := f.path(key)
	if err != nil {
		return err
	}
	temp, err := f.receive(ctx, size, content)
	if err != nil {
		return fmt.Errorf("storing %s: %w", key, err)
	}
	defer func() { _ = os.Remove(temp) }()
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return fmt.Errorf("storing %s: %w", key, err)
	}
	if err := os.Rename(temp, to); err != nil {
		return fmt.Errorf("storing %s: %w", key, err)
	}
	// Folders above may be new as well.
	for dir := filepath.Dir(to); ; dir = filepath.Dir(dir) {
		if err := osfile.SyncFolder(dir); err != nil {
			return fmt.Errorf("storing %s: %w", key, err)
		}
		if dir == f.dir {
			return nil
		}
	}
}

// receive writes a temporary file whose content survives a loss of power.
func (f *Folder) receive(ctx context.Context, size int64, content io.Reader) (string, error) {
	out, err := os.CreateTemp(filepath.Join(f.dir, tempDir), "object-*")
	if err != nil {
		return "", err
	}
	n, err := io.Copy(out, io.LimitReader(&bounded{ctx, content}, size+1))
	if err == nil && n != size {
		err = fmt.Errorf("%d bytes were announced and %d came: %w", size, n, io.ErrUnexpectedEOF)
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		_ = os.Remove(out.Name())
		return "", err
	}
	return out.Name(), nil
}

// Get implements [Shelf].
func (f *Folder) Get(_ context.Context, key string) (io.ReadCloser, error) {
	at, err := f.path(key)
	if err != nil {
		return nil, err
	}
	return os.Open(at)
}

// Stat implements [Shelf].
func (f *Folder) Stat(_ context.Context, key string) (Info, error) {
	at, err := f.path(key)
	if err != nil {
		return Info{}, err
	}
	info, err := os.Stat(at)
	if err != nil {
		return Info{}, err
	}
	return Info{Key: key, Size: info.Size(), Stored: info.ModTime()}, nil
}

// Delete implements [Shelf].
func (f *Folder) Delete(_ context.Context, key string) error {
	at, err := f.path(key)
	if err != nil {
		return err
	}
	err = os.Remove(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		// A list that came back with the power would name contents that were removed
		// after it.
		err = osfile.SyncFolder(filepath.Dir(at))
	}
	if err != nil {
		return fmt.Errorf("removing %s: %w", key, err)
	}
	return nil
}

// List implements [Shelf].
func (f *Folder) List(ctx context.Context, prefix string, see func(Info) error) error {
	at, err := f.path(prefix)
	if err != nil {
		return err
	}
	return filepath.WalkDir(at, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // nothing there, or gone meanwhile
			return nil
		case err != nil:
			return fmt.Errorf("listing %s: %w", prefix, err)
		case ctx.Err() != nil:
			return ctx.Err()
		case !e.Type().IsRegular():
			return nil
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("listing %s: %w", prefix, err)
		}
		key := filepath.ToSlash(strings.TrimPrefix(path, f.dir+string(filepath.Separator)))
		return see(Info{Key: key, Size: info.Size(), Stored: info.ModTime()})
	})
}

// bounded stops reading once its context has ended.
type bounded struct {
	ctx context.Context
	in  io.Reader
}

func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.in.Read(p)
}
