package backend

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/muster-dev/muster/internal/osfile"
)

// incoming is where objects are written before they get their names. No key
// begins with a dot.
const incoming = ".incoming"

// abandonedAfter is how old a file below incoming is that nobody writes any more.
const abandonedAfter = 24 * time.Hour

// Folder keeps each object in a file of its own.
type Folder struct {
	root string
	// made are the folders that are known to be there, durably.
	made sync.Map
}

// OpenFolder opens a folder, which is made if need be.
func OpenFolder(root string) (*Folder, error) {
	dir := filepath.Join(root, incoming)
	for _, d := range []string{root, dir} {
		if err := osfile.MakeFolder(d, 0o755); err != nil {
			return nil, fmt.Errorf("making a folder for the store: %w", err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("looking for what writers left: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && time.Since(info.ModTime()) > abandonedAfter {
			err = os.Remove(filepath.Join(dir, e.Name()))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("removing what a writer left: %w", err)
		}
	}
	return &Folder{root: root}, nil
}

// Put implements [Backend].
func (f *Folder) Put(ctx context.Context, key string, content []byte) error {
	return f.PutAfter(ctx, key, content, atOnce)
}

// PutAfter implements [Follower]: the file is on disk by then, and only gets its name.
func (f *Folder) PutAfter(ctx context.Context, key string, content []byte, first func() error) error {
	return f.put(ctx, key, f.temp(), func(temp string) error { return writeDurably(temp, content) }, first)
}

// temp is what a file is called while it is written.
func (f *Folder) temp() string { return filepath.Join(f.root, incoming, rand.Text()) }

// put stores under a key the file that write makes, after first. The file, its folder
// and what first does become durable at once: the file system syncs all that together.
func (f *Folder) put(ctx context.Context, key, temp string, write func(temp string) error, first func() error) error {
	if err := errors.Join(check(key), ctx.Err()); err != nil {
		return err
	}
	path := filepath.Join(f.root, filepath.FromSlash(key))
	var beside errgroup.Group
	beside.Go(func() error { return f.make(filepath.Dir(path)) })
	beside.Go(func() error { return write(temp) })
	before := first()
	err := beside.Wait()
	if before != nil {
		return errors.Join(before, dropFile(temp))
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return fmt.Errorf("storing %s: %w", key, errors.Join(hint(err), dropFile(temp)))
	}
	if err := osfile.SyncFolder(filepath.Dir(path)); err != nil {
		return fmt.Errorf("storing %s: %w", key, err)
	}
	return nil
}

// atOnce is for objects that wait for nothing.
func atOnce() error { return nil }

// dropFile removes a file, if it is there.
func dropFile(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// PutFleeting implements [Fleeting]: nothing is waited for until it is on disk.
func (f *Folder) PutFleeting(ctx context.Context, key string, content []byte) error {
	if err := errors.Join(check(key), ctx.Err()); err != nil {
		return err
	}
	path := filepath.Join(f.root, filepath.FromSlash(key))
	if err := f.make(filepath.Dir(path)); err != nil {
		return fmt.Errorf("storing %s: %w", key, err)
	}
	temp := f.temp()
	err := writeTo(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, content, false)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return fmt.Errorf("storing %s: %w", key, errors.Join(hint(err), os.Remove(temp)))
	}
	return nil
}

// DeleteFleeting implements [Fleeting].
func (f *Folder) DeleteFleeting(ctx context.Context, key string) error {
	if err := errors.Join(check(key), ctx.Err()); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(f.root, filepath.FromSlash(key))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing %s: %w", key, err)
	}
	return nil
}

// ReadAt implements [Backend].
func (f *Folder) ReadAt(ctx context.Context, key string, offset int64, into []byte) error {
	if err := errors.Join(check(key), ctx.Err()); err != nil {
		return err
	}
	file, err := os.Open(filepath.Join(f.root, filepath.FromSlash(key)))
	if err != nil {
		return fmt.Errorf("reading %s: %w", key, err)
	}
	_, err = file.ReadAt(into, offset)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%d bytes at %d: %w", len(into), offset, ErrShort)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("reading %s: %w", key, err)
	}
	return nil
}

// Stat implements [Backend].
func (f *Folder) Stat(ctx context.Context, key string) (Info, error) {
	if err := errors.Join(check(key), ctx.Err()); err != nil {
		return Info{}, err
	}
	info, err := os.Stat(filepath.Join(f.root, filepath.FromSlash(key)))
	if err != nil {
		return Info{}, fmt.Errorf("looking for %s: %w", key, err)
	}
	return Info{Key: key, Size: info.Size(), Stored: info.ModTime()}, nil
}

// List implements [Backend].
func (f *Folder) List(ctx context.Context, prefix string, see func(Info) error) error {
	if err := check(prefix); err != nil {
		return err
	}
	if !strings.HasSuffix(prefix, "/") {
		return fmt.Errorf("listing %q: a prefix ends in a slash", prefix)
	}
	return f.list(ctx, strings.TrimSuffix(prefix, "/"), see)
}

func (f *Folder) list(ctx context.Context, below string, see func(Info) error) error {
	entries, err := os.ReadDir(filepath.Join(f.root, filepath.FromSlash(below)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing %s: %w", below, err)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		key := below + "/" + e.Name()
		if e.IsDir() {
			if err := f.list(ctx, key, see); err != nil {
				return err
			}
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return fmt.Errorf("listing %s: %w", key, err)
		}
		if err := see(Info{Key: key, Size: info.Size(), Stored: info.ModTime()}); err != nil {
			return err
		}
	}
	return nil
}

// Delete implements [Backend]. Folders that it empties stay: another may be about
// to put something there.
func (f *Folder) Delete(ctx context.Context, key string) error {
	if err := errors.Join(check(key), ctx.Err()); err != nil {
		return err
	}
	path := filepath.Join(f.root, filepath.FromSlash(key))
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = osfile.SyncFolder(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("removing %s: %w", key, err)
	}
	return nil
}

// make makes a folder below the root durable, with those that lead to it.
func (f *Folder) make(dir string) error {
	if _, ok := f.made.Load(dir); ok || dir == f.root {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := f.make(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// Also where it was there: who made it may not have come to this.
	if err := osfile.SyncFolder(parent); err != nil {
		return err
	}
	f.made.Store(dir, nil)
	return nil
}

// Objects from directFrom bytes on are written past the page cache, in whole blocks
// of directBlock: that costs a fifth of the time in the kernel, and what is in the
// cache for others stays there.
const (
	directFrom  = 8 << 20
	directBlock = 4096
)

// writeDurably makes a file, which is on disk when it returns nil.
func writeDurably(path string, content []byte) error {
	const anew = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	blocks := 0
	if len(content) >= directFrom && uintptr(unsafe.Pointer(unsafe.SliceData(content)))%directBlock == 0 {
		blocks = len(content) / directBlock * directBlock
		err := writeTo(path, anew|direct, content[:blocks], false)
		if errors.Is(err, syscall.EINVAL) { // not every file system can
			blocks = 0
			err = os.Remove(path)
			if errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
	if blocks > 0 {
		return writeTo(path, os.O_WRONLY|os.O_APPEND, content[blocks:], true)
	}
	return writeTo(path, anew, content, true)
}

// writeTo opens a file and writes to it.
func writeTo(path string, flags int, content []byte, sync bool) error {
	file, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil && sync {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// hint adds what to do to errors for which there is something.
func hint(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w: make room, or collect what nobody needs (muster data gc)", err)
	case errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: the quota of this user is used up", err)
	}
	return err
}
