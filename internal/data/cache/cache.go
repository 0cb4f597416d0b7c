package cache

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/digest"
)

// Options say where a cache is and how large it may become. Dir is required.
type Options struct {
	// Dir is the folder. It is made if need be; nothing else may be in it.
	Dir string
	// Limit is how many bytes of files it may have. Default: half of what the file
	// system has that it is on.
	Limit int64
	// InUse tells which keys somebody outside of this process names. It is asked
	// before anything is removed; where it fails, nothing is. Default: none.
	InUse func(context.Context) (map[string]bool, error)
	// Guarded says that nobody who is shown an entry can write into it, since the kernel
	// keeps them from it. Then what was fetched before is given out once its files are
	// counted; else when each was written is looked at first, which costs 2 us a file.
	Guarded bool
}

// Cache is the folder. It may be used by many at once.
type Cache struct {
	dir   string
	limit int64
	inUse func(context.Context) (map[string]bool, error)
	boot  string
	// guarded is [Options.Guarded].
	guarded bool
	// step is called before each step of a fetch; an error ends it there, as a
	// crash would. Tests set it.
	step func(string) error

	mu      sync.Mutex
	entries map[string]*entry
	total   int64    // of the bytes of all entries
	rubbish []string // folders that are to be removed
}

// Folder is a part of a commit on this machine.
type Folder struct {
	// Key names what is in it.
	Key string
	// Path is where it is.
	Path string
	// Files and Bytes are how much is in it.
	Files, Bytes int64
}

// Open opens a cache.
func Open(o Options) (*Cache, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, fmt.Errorf("finding out since when the machine runs: %w", err)
	}
	c := &Cache{
		dir: o.Dir, limit: o.Limit, inUse: o.InUse, guarded: o.Guarded, boot: strings.TrimSpace(string(boot)),
		step: func(string) error { return nil }, entries: map[string]*entry{},
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the cache of data: %w", err)
	}
	if c.limit <= 0 {
		size, _, err := space(o.Dir)
		if err != nil {
			return nil, err
		}
		c.limit = size / 2
	}
	return c, c.load()
}

// load finds out what is there.
func (c *Cache) load() error {
	found, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("reading the cache of data: %w", err)
	}
	for _, f := range found {
		folder := filepath.Join(c.dir, f.Name())
		e, err := read(folder)
		if _, named := digest.Parse(f.Name()); named != nil || errors.Is(err, errNoNote) {
			c.rubbish = append(c.rubbish, folder)
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the cache of data: %w", err)
		}
		e.key = f.Name()
		e.whole = e.whole && e.boot == c.boot
		c.entries[e.key] = e
		c.total += e.bytes
	}
	return nil
}

// Key is the key of what a path means in a commit.
func Key(v *data.View, name string) string {
	tree := v.Commit().Tree.ID
	return digest.Of([]byte("part 1\n" + tree.String() + "\n" + clean(name))).String()
}

// Scoped is the key under which an entry is kept for one of several who must not
// learn what the others have. Empty: the key itself.
func Scoped(scope, key string) string {
	if scope == "" {
		return key
	}
	return digest.Of([]byte("scoped 1\n" + scope + "\n" + key)).String()
}

func clean(name string) string { return strings.Trim(path.Clean("/"+name), "/") }

// Ensure makes what a path means in a commit be in a folder of this machine, and
// returns that once it is whole. It stays until release is called, at least. Several
// who want the same wait for one fetch; progress, if given, is told how far it is.
// A fetch that ctx ends is gone on with by the next. The error wraps
// [fs.ErrNotExist] where the commit has no such path, and is a [RoomError] where
// there is no room for it.
func (c *Cache) Ensure(ctx context.Context, v *data.View, name string, progress func(data.Progress)) (Folder, func(), error) {
	return c.EnsureFor(ctx, "", v, name, progress)
}

// EnsureFor is [Cache.Ensure] for one of several who must not learn what the others
// have: nothing is shared between scopes, and the key of the folder is [Scoped].
func (c *Cache) EnsureFor(ctx context.Context, scope string, v *data.View, name string, progress func(data.Progress)) (Folder, func(), error) {
	return c.provide(ctx, scope, v, name, progress, func(ctx context.Context, e *entry, part data.Part) error { return c.room(ctx, e, part, Spare{}) })
}

// Spare says what room there is for what nobody needs yet.
type Spare struct {
	// Leave is how many bytes of the disk stay free.
	Leave int64
	// Idle is for how long something was not used that is removed for it.
	Idle time.Duration
	// Keep are the keys of what is not removed, beside what is in use.
	Keep map[string]bool
}

// EnsureSpare is [Cache.EnsureFor] for what nobody needs yet. If it does not fit as spare
// says, the error is a [RoomError].
func (c *Cache) EnsureSpare(ctx context.Context, scope string, v *data.View, name string, spare Spare) (Folder, func(), error) {
	return c.provide(ctx, scope, v, name, nil, func(ctx context.Context, e *entry, part data.Part) error { return c.room(ctx, e, part, spare) })
}

// taker takes room for an entry, or says why there is none.
type taker func(ctx context.Context, e *entry, part data.Part) error

// provide makes an entry whole, for which room is taken by take.
func (c *Cache) provide(ctx context.Context, scope string, v *data.View, name string, progress func(data.Progress), take taker) (Folder, func(), error) {
	name = clean(name)
	key := Scoped(scope, Key(v, name))
	c.mu.Lock()
	e := c.entries[key]
	if e == nil {
		e = &entry{key: key, scope: scope}
		c.entries[key] = e
	}
	e.holds++
	c.mu.Unlock()
	release := sync.OnceFunc(func() { c.release(e) })
	if err := c.ensure(ctx, e, v, name, progress, take); err != nil {
		release()
		return Folder{}, nil, err
	}
	return c.folder(e), release, nil
}

// Path is the folder of an entry that is whole; whoever asks has to see to it that it
// is in use.
func (c *Cache) Path(key string) (Folder, bool) {
	c.mu.Lock()
	e := c.entries[key]
	whole := e != nil && e.whole
	c.mu.Unlock()
	if !whole {
		return Folder{}, false
	}
	c.touch(e)
	return c.folder(e), true
}

func (c *Cache) folder(e *entry) Folder {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Folder{Key: e.key, Path: Place(c.dir, e.key), Files: e.files, Bytes: e.bytes}
}

// Place is the path of the files of an entry, in the cache in a folder.
func Place(dir, key string) string { return filepath.Join(dir, key, filesFolder) }

func (c *Cache) release(e *entry) {
	c.touch(e)
	c.mu.Lock()
	defer c.mu.Unlock()
	e.holds--
	if e.holds == 0 && !e.begun && c.entries[e.key] == e {
		delete(c.entries, e.key) // nothing of it is on disk
	}
}

// touch notes that an entry is used now, also for the next process.
func (c *Cache) touch(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.used = time.Now()
	if e.begun {
		// Without it the order of removal is another; nothing else depends on it.
		_ = os.Chtimes(filepath.Join(c.dir, e.key), e.used, e.used)
	}
}

// ensure makes an entry whole, or waits for who does.
func (c *Cache) ensure(ctx context.Context, e *entry, v *data.View, name string, progress func(data.Progress), take taker) error {
	done, err := c.turn(ctx, e, progress)
	if err != nil {
		return err
	}
	defer done()
	folder := filepath.Join(c.dir, e.key)
	if e.whole {
		same, err := e.intact(ctx, folder, !c.guarded)
		if err != nil {
			return fmt.Errorf("looking at data that was fetched before: %w", err)
		}
		if same {
			c.touch(e)
			return nil
		}
	}
	part, err := v.Part(ctx, name)
	if err != nil {
		return err
	}
	if err := c.fetch(ctx, e, v, name, part, take); err != nil {
		return fmt.Errorf("fetching it: %w", err)
	}
	c.touch(e)
	return nil
}

// turn waits until nobody else works on an entry; done has to be called. Meanwhile
// progress hears of what the others do.
func (c *Cache) turn(ctx context.Context, e *entry, progress func(data.Progress)) (done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seat := e.listen(progress)
	for e.busy != nil {
		busy := e.busy
		c.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
		}
		c.mu.Lock()
		if err := ctx.Err(); err != nil {
			delete(e.heard, seat)
			return nil, err
		}
	}
	e.busy = make(chan struct{})
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		close(e.busy)
		e.busy = nil
		delete(e.heard, seat)
	}, nil
}

// fetch makes an entry whole, step by step. Broken off anywhere, the next one goes on.
func (c *Cache) fetch(ctx context.Context, e *entry, v *data.View, name string, part data.Part, take taker) error {
	folder := filepath.Join(c.dir, e.key)
	n := note{Boot: c.boot, Files: part.Files, Bytes: part.Bytes, Scope: e.scope, Commit: v.Commit().ID, Path: name}
	// 1. Room.
	if err := c.step("room"); err != nil {
		return err
	}
	if err := take(ctx, e, part); err != nil {
		return err
	}
	// 2. A note of how much it will be, by which the next process counts it.
	if err := c.step("note"); err != nil {
		return err
	}
	if err := n.write(folder); err != nil {
		return err
	}
	// 3. The files, many at once; what is there is checked and kept, what another entry
	// has is linked.
	if err := c.step("files"); err != nil {
		return err
	}
	root, err := os.OpenRoot(c.dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	files, err := filesOf(root, e.key)
	if err != nil {
		return err
	}
	lender := c.lender(ctx, root, e, v, name, part)
	defer lender.release()
	_, err = v.CheckoutIn(ctx, files, data.CheckoutOptions{
		Pattern: part.Pattern, Below: part.Below, Delete: true, ReadOnly: true, Reuse: lender.lend,
		Progress: func(p data.Progress) {
			p.TotalFiles, p.TotalBytes = part.Files, part.Bytes
			c.tell(e, p)
		},
	})
	if err != nil {
		return err
	}
	// 4. That it is whole.
	if err := c.step("whole"); err != nil {
		return err
	}
	count, newest, err := survey(ctx, filepath.Join(folder, filesFolder), true)
	if err != nil {
		return fmt.Errorf("looking at what was fetched: %w", err)
	}
	if count != part.Files {
		return fmt.Errorf("%d files were fetched, and %d are there: somebody else writes below %s", part.Files, count, folder)
	}
	n.Whole, n.Newest = true, newest
	if err := n.write(folder); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e.whole, e.newest, e.commit, e.path = true, newest, n.Commit, name
	return nil
}

// filesOf makes and opens the folder for the files of an entry. Something else in its place is
// removed: only a fault, or somebody else, put it there.
func filesOf(root *os.Root, key string) (*os.Root, error) {
	for _, name := range []string{key, path.Join(key, filesFolder)} {
		if info, err := root.Lstat(name); err == nil && !info.IsDir() {
			if err := root.Remove(name); err != nil {
				return nil, fmt.Errorf("removing what is in the place of a folder for data: %w", err)
			}
		}
		if err := root.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("making a folder for data: %w", err)
		}
	}
	return root.OpenRoot(path.Join(key, filesFolder))
}

// tell tells whoever waits for an entry how far it is.
func (c *Cache) tell(e *entry, p data.Progress) {
	c.mu.Lock()
	all := slices.Collect(maps.Values(e.heard))
	c.mu.Unlock()
	for _, hear := range all { // who may ask the cache something
		hear(p)
	}
}

// sweep removes what is not needed any more.
func (c *Cache) sweep() error {
	c.mu.Lock()
	rubbish := c.rubbish
	c.rubbish = nil
	c.mu.Unlock()
	for i, folder := range rubbish {
		if err := os.RemoveAll(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.mu.Lock()
			c.rubbish = append(c.rubbish, rubbish[i:]...)
			c.mu.Unlock()
			return fmt.Errorf("removing data that nobody uses: %w", err)
		}
	}
	return nil
}

// condemn takes an entry out of its place, at once and as a whole. The lock is held.
func (c *Cache) condemn(e *entry) error {
	gone := filepath.Join(c.dir, e.key+".gone-"+rand.Text())
	if err := os.Rename(filepath.Join(c.dir, e.key), gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing data that nobody uses: %w", err)
	}
	delete(c.entries, e.key)
	c.total -= e.bytes
	c.rubbish = append(c.rubbish, gone)
	return nil
}
