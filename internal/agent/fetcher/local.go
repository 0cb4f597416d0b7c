package fetcher

import (
	"context"
	"errors"
	"fmt"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/cache"
	"github.com/muster-dev/muster/internal/data/ref"
)

// Part is a path in a commit of a namespace's store.
type Part struct {
	Namespace string `json:"namespace"`
	// Commit are the 64 digits of the commit.
	Commit string `json:"commit"`
	// Path is a file, a folder or a glob. Empty: the whole commit.
	Path string `json:"path,omitempty"`
	// Ahead says that no pod names the part yet. It is read by the right that came with an
	// order of the manager.
	Ahead bool `json:"ahead,omitempty"`
}

// Local fetches parts in this process.
type Local struct {
	cache *cache.Cache
	store func(context.Context, Part) (*data.Store, error)
}

// NewLocal opens a cache, to which parts are fetched from the stores that store opens. Each
// store is closed after the part is fetched.
func NewLocal(o cache.Options, store func(context.Context, Part) (*data.Store, error)) (*Local, error) {
	c, err := cache.Open(o)
	return &Local{cache: c, store: store}, err
}

// Key is the name of a part in a cache ([cache.Key]).
func (l *Local) Key(ctx context.Context, p Part) (key string, err error) {
	err = l.read(ctx, p, func(v *data.View) error {
		key = cache.Key(v, p.Path)
		return nil
	})
	return key, err
}

// Ensure fetches a part, as [cache.Cache.EnsureFor] does; with spare, as
// [cache.Cache.EnsureSpare] does.
func (l *Local) Ensure(ctx context.Context, p Part, spare *cache.Spare, progress func(data.Progress)) error {
	return l.read(ctx, p, func(v *data.View) (err error) {
		var release func()
		if spare != nil {
			_, release, err = l.cache.EnsureSpare(ctx, p.Namespace, v, p.Path, *spare)
		} else {
			_, release, err = l.cache.EnsureFor(ctx, p.Namespace, v, p.Path, progress)
		}
		if err == nil {
			release() // records of volumes name it
		}
		return err
	})
}

// Path is the folder of an entry of the cache, by its scoped key, and counts as a use of it.
// It is false if the entry is not whole.
func (l *Local) Path(_ context.Context, key string) (string, bool) {
	f, here := l.cache.Path(key)
	return f.Path, here
}

// Disk is the size of the cache's file system, in bytes.
func (l *Local) Disk() (int64, error) { return l.cache.Disk() }

// read calls use with the commit of a part.
func (l *Local) read(ctx context.Context, p Part, use func(*data.View) error) (err error) {
	store, err := l.store(ctx, p)
	if err != nil {
		return fmt.Errorf("opening the store of namespace %s: %w", p.Namespace, err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	view, err := store.Dataset(&ref.Memory{}).At(ctx, p.Commit)
	if err != nil {
		return fmt.Errorf("reading commit %s: %w", p.Commit[:min(8, len(p.Commit))], err)
	}
	return use(view)
}
