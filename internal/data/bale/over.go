package bale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/pack"
)

const (
	// reads is how many lists of bales are read at once.
	reads = 16
	// tries is how often it is looked where a pack is now that others move meanwhile.
	tries = 4
)

// spot is where a pack lies in a bale.
type spot struct {
	bale        string
	begin, size int64
	stored      time.Time
}

// Backend is a backend whose packs are loose or in bales. It may be used by many at once.
// Deleting a pack removes it where it is loose alone.
type Backend struct {
	inner backend.Backend

	looking sync.Mutex // who looks has the others wait for the answer
	mu      sync.Mutex
	looks   int
	bales   map[string]*Bale
	packs   map[string]spot
	damaged map[string]error // bales whose lists cannot be read
}

// Over is the backend with its packs found wherever they are. What the backend can do
// beside ([backend.Streamer], [backend.Fleeting], ...) it can.
func Over(b backend.Backend) backend.Backend {
	if _, is := b.(interface{ Bales() *Backend }); is {
		return b
	}
	if s, is := b.(backend.Streamer); is {
		return Streams(s)
	}
	return over(b)
}

// Streams is [Over] for a backend that passes objects on in pieces.
func Streams(b backend.Streamer) backend.Streamer {
	if _, is := b.(interface{ Bales() *Backend }); is {
		return b
	}
	with := &streamer{over(b), b}
	if q, is := b.(quick); is {
		return &folder{with, q}
	}
	return with
}

func over(b backend.Backend) *Backend {
	return &Backend{inner: b, bales: map[string]*Bale{}, packs: map[string]spot{}, damaged: map[string]error{}}
}

// Bales is the backend itself, for who joins packs.
func (b *Backend) Bales() *Backend { return b }

// Of is the backend that [Over] returned, for who joins packs; nil for another one.
func Of(b backend.Backend) *Backend {
	if o, is := b.(interface{ Bales() *Backend }); is {
		return o.Bales()
	}
	return nil
}

// streamer is one that passes objects on in pieces, too.
type streamer struct {
	*Backend
	streams backend.Streamer
}

// quick is what a folder can do beside.
type quick interface {
	backend.Streamer
	backend.Fleeting
	backend.Follower
	backend.Starter
}

// folder is one that can do all of that.
type folder struct {
	*streamer
	quick quick
}

// PutFleeting implements [backend.Fleeting].
func (f *folder) PutFleeting(ctx context.Context, key string, content []byte) error {
	return f.quick.PutFleeting(ctx, key, content)
}

// DeleteFleeting implements [backend.Fleeting].
func (f *folder) DeleteFleeting(ctx context.Context, key string) error {
	return f.quick.DeleteFleeting(ctx, key)
}

// PutAfter implements [backend.Follower].
func (f *folder) PutAfter(ctx context.Context, key string, content []byte, first func() error) error {
	return f.quick.PutAfter(ctx, key, content, first)
}

// Start implements [backend.Starter].
func (f *folder) Start(key string) backend.Started { return f.quick.Start(key) }

// Open implements [backend.Streamer].
func (s *streamer) Open(ctx context.Context, key string, offset, length int64) (in io.ReadCloser, err error) {
	err = s.find(ctx, key, func(at *spot) error {
		if at == nil {
			in, err = s.streams.Open(ctx, key, offset, length)
			return err
		}
		if err := at.within(key, offset, length); err != nil {
			return err
		}
		in, err = s.streams.Open(ctx, at.bale, at.begin+offset, length)
		return err
	})
	return in, err
}

// PutFrom implements [backend.Streamer].
func (s *streamer) PutFrom(ctx context.Context, key string, size int64, from io.Reader) error {
	return s.streams.PutFrom(ctx, key, size, from)
}

// Put implements [backend.Backend].
func (b *Backend) Put(ctx context.Context, key string, content []byte) error {
	return b.inner.Put(ctx, key, content)
}

// Delete implements [backend.Backend].
func (b *Backend) Delete(ctx context.Context, key string) error { return b.inner.Delete(ctx, key) }

// Doubt implements [backend.Doubter].
func (b *Backend) Doubt(key string, offset, length int64) bool {
	if at, ok := b.spot(key); ok {
		return backend.Doubt(b.inner, at.bale, at.begin+offset, length)
	}
	return backend.Doubt(b.inner, key, offset, length)
}

// ReadAt implements [backend.Backend].
func (b *Backend) ReadAt(ctx context.Context, key string, offset int64, into []byte) error {
	return b.find(ctx, key, func(at *spot) error {
		if at == nil {
			return b.inner.ReadAt(ctx, key, offset, into)
		}
		if err := at.within(key, offset, int64(len(into))); err != nil {
			return err
		}
		return b.inner.ReadAt(ctx, at.bale, at.begin+offset, into)
	})
}

// within refuses a part that a pack does not have, though its bale may.
func (s *spot) within(key string, offset, length int64) error {
	if offset < 0 || length < 0 || offset > s.size || length > s.size-offset {
		return fmt.Errorf("reading %s, which is in %s: %d bytes at %d: %w", key, s.bale, length, offset, backend.ErrShort)
	}
	return nil
}

// Stat implements [backend.Backend].
func (b *Backend) Stat(ctx context.Context, key string) (info backend.Info, err error) {
	err = b.find(ctx, key, func(at *spot) error {
		if at == nil {
			info, err = b.inner.Stat(ctx, key)
			return err
		}
		info = backend.Info{Key: key, Size: at.size, Stored: at.stored}
		_, err = b.inner.Stat(ctx, at.bale)
		return err
	})
	return info, err
}

// find has something be done where an object is: in a bale, or loose (nil). Others may move
// it meanwhile.
func (b *Backend) find(ctx context.Context, key string, do func(*spot) error) error {
	if !is(key) {
		return do(nil)
	}
	seen := b.looked()
	if at, ok := b.spot(key); ok {
		if err := do(&at); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for range tries {
		missing := do(nil)
		if !errors.Is(missing, fs.ErrNotExist) {
			return missing
		}
		if err := b.look(ctx, seen); err != nil {
			return err
		}
		seen = b.looked()
		at, ok := b.spot(key)
		if !ok {
			return b.explain(missing)
		}
		if err := do(&at); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fmt.Errorf("%s is moved again and again: %w", key, fs.ErrNotExist)
}

// explain says with an object that is not there which bales cannot be read.
func (b *Backend) explain(missing error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(b.damaged)) {
		return fmt.Errorf("%w (it may be in %s: %s)", missing, key, b.damaged[key].Error())
	}
	return missing
}

func (b *Backend) spot(key string) (spot, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ok := b.packs[key]
	return at, ok
}

// looked is how often it was looked which bales there are.
func (b *Backend) looked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.looks
}

// look finds out which bales there are, unless somebody has since the caller saw that it
// was so many times.
func (b *Backend) look(ctx context.Context, seen int) error {
	b.looking.Lock()
	defer b.looking.Unlock()
	if b.looked() > seen+1 { // begun after the caller asked, and done
		return nil
	}
	for range tries {
		whole, err := b.lookOnce(ctx)
		if whole || err != nil {
			return err
		}
	}
	return errors.New("looking for bales: they change again and again")
}

// lookOnce does; whole is false where one went while it was read.
func (b *Backend) lookOnce(ctx context.Context) (whole bool, err error) {
	there := map[string]backend.Info{}
	err = b.inner.List(ctx, Prefix, func(i backend.Info) error {
		there[i.Key] = i
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("looking for bales: %w", err)
	}
	b.mu.Lock()
	known := maps.Clone(b.bales)
	b.mu.Unlock()
	found, damaged, whole := map[string]*Bale{}, map[string]error{}, true
	var mu sync.Mutex
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(reads)
	for key, i := range there {
		if old := known[key]; old != nil {
			mu.Lock()
			found[key] = old
			mu.Unlock()
			continue
		}
		group.Go(func() error {
			one, err := read(inner, b.inner, i)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				found[key] = one
			case errors.Is(err, fs.ErrNotExist):
				whole = false
			case errors.Is(err, pack.ErrDamaged), errors.Is(err, backend.ErrShort):
				damaged[key] = err
			default:
				return fmt.Errorf("looking for bales: %w", err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bales, b.damaged = found, damaged
	b.looks++
	b.place()
	return whole, nil
}

// place says where all packs are, by the last bale that holds each. It is for who has mu.
func (b *Backend) place() {
	b.packs = map[string]spot{}
	all := slices.SortedFunc(maps.Values(b.bales), func(x, y *Bale) int {
		if x.later(y) {
			return 1
		}
		return -1
	})
	for _, one := range all {
		var begin int64
		for _, p := range one.Packs {
			b.packs[p.Key] = spot{one.Key, begin, p.Size, p.Stored}
			begin += p.Size
		}
	}
}

// note adds a bale that was made.
func (b *Backend) note(made *Bale) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bales = maps.Clone(b.bales)
	b.bales[made.Key] = made
	b.place()
}

// List implements [backend.Backend]. Loose packs are looked for first: one that somebody
// joins meanwhile is in a bale before it is not loose any more.
func (b *Backend) List(ctx context.Context, prefix string, see func(backend.Info) error) error {
	if !is(prefix) {
		return b.inner.List(ctx, prefix, see)
	}
	loose := map[string]bool{}
	err := b.inner.List(ctx, prefix, func(i backend.Info) error {
		loose[i.Key] = true
		return see(i)
	})
	if err != nil {
		return err
	}
	all, err := b.All(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		for _, p := range one.Packs {
			if !strings.HasPrefix(p.Key, prefix) || loose[p.Key] {
				continue
			}
			loose[p.Key] = true
			if err := see(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// All are the bales there are now.
func (b *Backend) All(ctx context.Context) ([]*Bale, error) {
	if err := b.look(ctx, b.looked()); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.bales)), nil
}

// whole says whether content is that of a pack.
func (b *Backend) whole(ctx context.Context, key string, content []byte) bool {
	name, err := pack.ParseKey(key)
	if err != nil {
		return false
	}
	alone := &backend.Memory{}
	if err := alone.Put(ctx, key, content); err != nil {
		return false
	}
	_, err = pack.ReadIndex(ctx, alone, name, int64(len(content)))
	return err == nil
}

// Loose shows the packs that have an object of their own.
func (b *Backend) Loose(ctx context.Context, see func(backend.Info)) error {
	return b.inner.List(ctx, pack.Prefix, func(i backend.Info) error {
		see(i)
		return nil
	})
}
