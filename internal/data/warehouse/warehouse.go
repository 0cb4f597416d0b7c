package warehouse

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/bucket"
	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/bale"
)

// Options say where a warehouse is. Folder or Bucket has to be given.
type Options struct {
	// Folder is a folder that all who open the warehouse have in common.
	Folder string
	// Bucket is a bucket, and Prefix what all keys in it begin with, such as data.
	Bucket bucket.Options
	Prefix string
	// Quota is how many bytes one namespace may keep. Default: no bound.
	Quota int64
	// Room refuses so many bytes more where the disk has no room. Default: the disk is
	// asked when they are written.
	Room func(more int64) error
	// Workers is how many cores each store may use. Default: all that there are.
	Workers int
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
}

// yard is where stores lie beside one another.
type yard interface {
	// at is where the objects of a namespace are.
	at(namespace string) (backend.Streamer, error)
	// names are those of all namespaces of which anything is there.
	names(ctx context.Context) ([]string, error)
	// settles is how long lists may not show what was stored.
	settles() time.Duration
}

// Warehouse opens the store of each namespace. It may be used by many at once, and
// any number may be open in one place.
type Warehouse struct {
	o    Options
	yard yard

	mu    sync.Mutex
	rooms map[string]*room
}

// room is what is known of one namespace.
type room struct {
	objects backend.Streamer
	store   *data.Store
	// bounded is the same store for who is bound by the quota as it writes.
	bounded *data.Store
	asked   time.Time

	mu sync.Mutex
	// used is how much was kept when that was counted, with what came since.
	used    int64
	counted time.Time
}

// idle is after which time a store is forgotten that nobody asks for: who still has
// it may use it on.
const idle = time.Hour

// Open opens a warehouse. Nothing is asked of it yet.
func Open(o Options) (*Warehouse, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	w := &Warehouse{o: o, rooms: map[string]*room{}}
	if o.Folder != "" {
		w.yard = folderYard{o.Folder}
		return w, nil
	}
	all, err := backend.OpenBucket(o.Bucket, o.Prefix)
	if err != nil {
		return nil, fmt.Errorf("opening the store of data: %w", err)
	}
	w.yard = bucketYard{all}
	return w, nil
}

// Store is the store of a namespace, which need not have any data yet. It stays the
// warehouse's: do not close it. Collections are for [Warehouse.Collect].
func (w *Warehouse) Store(ctx context.Context, namespace string) (*data.Store, error) {
	r, err := w.room(namespace)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.store == nil {
		r.store, err = w.open(ctx, namespace, r, w.o.Room)
	}
	return r.store, err
}

// Bounded is the store of a namespace for a part of this program that writes into it
// without [Warehouse.Reserve], as results of pipelines are. A write ends with an error that
// wraps [ErrQuota] once the namespace keeps its quota.
func (w *Warehouse) Bounded(ctx context.Context, namespace string) (*data.Store, error) {
	r, err := w.room(namespace)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.bounded == nil {
		r.bounded, err = w.open(ctx, namespace, r, func(more int64) error {
			return w.fits(context.WithoutCancel(ctx), namespace, more)
		})
	}
	return r.bounded, err
}

func (w *Warehouse) open(ctx context.Context, namespace string, r *room, bound func(int64) error) (*data.Store, error) {
	store, err := data.Open(ctx, data.Options{Backend: r.objects, Workers: w.o.Workers, Room: bound})
	if err != nil {
		return nil, fmt.Errorf("opening the store of namespace %s: %w", namespace, err)
	}
	return store, nil
}

// Objects are the objects of the store of a namespace.
func (w *Warehouse) Objects(namespace string) (backend.Streamer, error) {
	r, err := w.room(namespace)
	if err != nil {
		return nil, err
	}
	return r.objects, nil
}

// Namespaces are those of which anything is kept.
func (w *Warehouse) Namespaces(ctx context.Context) ([]string, error) {
	all, err := w.yard.names(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking for the namespaces that have data: %w", err)
	}
	found := all[:0]
	for _, name := range all {
		if check(name) == nil {
			found = append(found, name)
		}
	}
	return found, nil
}

// Collect makes one pass over the store of a namespace, as [data.Store.Collect] does.
func (w *Warehouse) Collect(ctx context.Context, namespace string, o data.CollectOptions) (data.CollectReport, error) {
	store, err := w.Store(ctx, namespace)
	if err != nil {
		return data.CollectReport{}, err
	}
	o.Settle = max(o.Settle, w.yard.settles())
	return store.Collect(ctx, o)
}

// room is that of a namespace.
func (w *Warehouse) room(namespace string) (*room, error) {
	if err := check(namespace); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.o.Now()
	for name, other := range w.rooms {
		if now.Sub(other.asked) > idle {
			delete(w.rooms, name)
		}
	}
	r := w.rooms[namespace]
	if r == nil {
		objects, err := w.yard.at(namespace)
		if err != nil {
			return nil, fmt.Errorf("opening the store of namespace %s: %w", namespace, err)
		}
		r = &room{objects: bale.Streams(objects)}
		w.rooms[namespace] = r
	}
	r.asked = now
	return r, nil
}

// longest is how long the name of a namespace may be, as Kubernetes has it.
const longest = 63

// check refuses what cannot be a namespace, so that no name leads elsewhere.
func check(namespace string) error {
	odd := strings.ContainsFunc(namespace, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' })
	if namespace == "" || len(namespace) > longest || odd {
		return fmt.Errorf("%q is no namespace: up to %d lower-case letters, digits and dashes make one", namespace, longest)
	}
	return nil
}

// folderYard has a folder for each namespace.
type folderYard struct{ root string }

func (y folderYard) at(namespace string) (backend.Streamer, error) {
	return backend.OpenFolder(filepath.Join(y.root, namespace))
}

func (y folderYard) names(context.Context) ([]string, error) {
	entries, err := os.ReadDir(y.root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		holds, err := y.holds(e.Name())
		if err != nil {
			return nil, err
		}
		if holds {
			found = append(found, e.Name())
		}
	}
	return found, nil
}

// holds says whether there is any object below a name: folders stay behind.
func (y folderYard) holds(name string) (found bool, err error) {
	err = filepath.WalkDir(filepath.Join(y.root, name), func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed meanwhile
		case err != nil:
			return err
		case e.IsDir() && strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		case e.Type().IsRegular() && path != filepath.Join(y.root, name):
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found, err
}

// A folder shows at once what is there.
func (y folderYard) settles() time.Duration { return 0 }

// bucketYard has a prefix for each namespace.
type bucketYard struct{ all *backend.Bucket }

func (y bucketYard) at(namespace string) (backend.Streamer, error) { return y.all.Below(namespace) }

func (y bucketYard) names(ctx context.Context) ([]string, error) { return y.all.Folders(ctx) }

// Some services show in their lists only after a moment what was stored.
func (y bucketYard) settles() time.Duration { return 5 * time.Second }
