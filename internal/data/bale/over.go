package bale

import (
	"bytes"
	"cmp"
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
	// tries bounds the lookups of a pack that other processes move concurrently.
	tries = 4
	// mostLists bounds the lists of one lookup. A list after the second one is necessary only if
	// another process removed a bale meanwhile.
	mostLists = 100
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

	looking chan struct{} // who looks has it, and the others wait for the answer
	mu      sync.Mutex
	looks   int
	bales   map[string]*Bale
	packs   map[string]spot
	unread  map[string]error  // bales whose lists cannot be read
	lists   map[string]*Bale  // what has been read by looks that were not the whole
	doubted map[string]string // packs, and bales in which they are damaged: they may be loose and whole
}

// Over is the backend with its packs found wherever they are. It is a [backend.Streamer]
// where the backend is one, and does what a [backend.Folder] does where that is one.
func Over(b backend.Backend) backend.Backend {
	if Of(b) != nil {
		return b
	}
	if s, ok := b.(backend.Streamer); ok {
		return Streams(s)
	}
	return over(b)
}

// Streams is [Over] for a backend that passes objects on in pieces.
func Streams(b backend.Streamer) backend.Streamer {
	if Of(b) != nil {
		return b
	}
	with := &streamer{over(b), b}
	if q, ok := b.(quick); ok {
		return &folder{with, q}
	}
	return with
}

func over(b backend.Backend) *Backend {
	return &Backend{inner: b, looking: make(chan struct{}, 1), lists: map[string]*Bale{}, doubted: map[string]string{}}
}

// Bales is the backend itself, for who joins packs.
func (b *Backend) Bales() *Backend { return b }

// Of is the backend that [Over] returned, for who joins packs; nil for another one.
func Of(b backend.Backend) *Backend {
	if o, ok := b.(interface{ Bales() *Backend }); ok {
		return o.Bales()
	}
	return nil
}

// In is the key of the bale that holds a pack of a backend that [Over] returned, as far as
// it is known to; "" where it is loose.
func In(b backend.Backend, pack string) string {
	if o := Of(b); o != nil {
		at, _ := o.spot(pack)
		return at.bale
	}
	return ""
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

// Doubt implements [backend.Doubter]: a pack that is damaged in its bale may be loose
// beside it, where somebody has put it back.
func (b *Backend) Doubt(key string, offset, length int64) bool {
	at, ok := b.spot(key)
	if !ok {
		return backend.Doubt(b.inner, key, offset, length)
	}
	if backend.Doubt(b.inner, at.bale, at.begin+offset, length) {
		return true
	}
	b.doubt(key, at.bale)
	return true
}

// doubt has a pack looked for loose first, as long as the bale is its holder.
func (b *Backend) doubt(key, bale string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.doubted[key] = bale
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
	if !isPack(key) {
		return do(nil)
	}
	at, known := b.spot(key)
	doubted := known && b.doubts(key, at.bale)
	var failed error
	if known && !doubted {
		failed = do(&at)
		if failed == nil || ctx.Err() != nil {
			return failed
		}
	}
	for range tries {
		missing := do(nil)
		if !errors.Is(missing, fs.ErrNotExist) {
			return missing
		}
		if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			return failed
		}
		if doubted { // it is nowhere else
			doubted = false
			if err := do(&at); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if err := b.look(ctx, b.looked()); err != nil {
			return err
		}
		at, known = b.spot(key)
		if !known {
			return b.explain(missing)
		}
		if err := do(&at); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fmt.Errorf("%s is moved again and again: %w", key, fs.ErrNotExist)
}

// ErrUnread is wrapped by errors of packs that are not loose while a bale cannot be read, in
// which they may be.
var ErrUnread = errors.New("a bale cannot be read")

// explain says of an object that is not there which bale could not be read. It may be in
// that one, so unless nobody ever will read it, nobody is told that the object is gone.
func (b *Backend) explain(missing error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	keys := slices.Sorted(maps.Keys(b.unread))
	for _, key := range keys {
		if err := b.unread[key]; !lost(err) {
			return fmt.Errorf("looking for a pack that is not loose: %w: %s: %w", ErrUnread, key, err)
		}
	}
	for _, key := range keys {
		return fmt.Errorf("%w (it may be in %s: %s)", missing, key, b.unread[key].Error())
	}
	return missing
}

// lost says that an error is not made better by another try.
func lost(err error) bool {
	return errors.Is(err, pack.ErrDamaged) || errors.Is(err, backend.ErrShort)
}

func (b *Backend) spot(key string) (spot, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, ok := b.packs[key]
	return at, ok
}

// doubts says that a pack is damaged in a bale.
func (b *Backend) doubts(key, bale string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.doubted[key] == bale
}

// looked is how often it was looked which bales there are.
func (b *Backend) looked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.looks
}

// look finds out which bales there are, unless somebody has since the caller saw that it
// was so many times. A look that is broken off leaves what it read to the next one.
func (b *Backend) look(ctx context.Context, seen int) error {
	select {
	case b.looking <- struct{}{}:
		defer func() { <-b.looking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if b.looked() > seen+1 { // begun after the caller asked, and done
		return nil
	}
	// A process stores the packs of a bale in a later bale before it removes the bale. The
	// next list contains the later bale. It may still contain the removed bale, too: each
	// list may have another delay.
	removed := map[string]bool{}
	for range mostLists {
		gone, err := b.lookOnce(ctx)
		if err != nil {
			return err
		}
		final := true
		for _, key := range gone {
			final = final && removed[key]
			removed[key] = true
		}
		if final {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.looks++
			return nil
		}
	}
	return fmt.Errorf("looking for bales: each of %d lists named a bale that was removed before it was read; see whether another process stores and removes bales without end", mostLists)
}

// lookOnce lists the bales and reads the unknown ones. It returns the bales that another
// process removed between the list and the read.
func (b *Backend) lookOnce(ctx context.Context) (gone []string, err error) {
	there := map[string]backend.Info{}
	err = b.inner.List(ctx, Prefix, func(i backend.Info) error {
		if isBale(i.Key) { // a file server keeps there what is open and was removed
			there[i.Key] = i
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking for bales: %w", err)
	}
	found, unread := map[string]*Bale{}, map[string]error{}
	var mu sync.Mutex
	group, asking := errgroup.WithContext(ctx)
	group.SetLimit(reads)
	for key, i := range there {
		group.Go(func() error {
			one, err := b.list(asking, i)
			if asking.Err() != nil {
				return asking.Err()
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				found[key] = one
			case errors.Is(err, fs.ErrNotExist):
				gone = append(gone, key)
			default:
				unread[key] = err
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("looking for bales: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unread, b.lists = unread, map[string]*Bale{}
	b.place(found)
	return gone, nil
}

// list is what is in a bale, which is read once; when it was stored is as the list of the
// moment has it, so that everybody orders bales alike.
func (b *Backend) list(ctx context.Context, i backend.Info) (*Bale, error) {
	b.mu.Lock()
	known := cmp.Or(b.bales[i.Key], b.lists[i.Key])
	b.mu.Unlock()
	if known != nil {
		if known.Info == i {
			return known, nil
		}
		return &Bale{Info: i, Packs: known.Packs}, nil
	}
	one, err := read(ctx, b.inner, i)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lists[i.Key] = one
	return one, nil
}

// place says where all packs are, by the last bale that holds each. It is for who has mu.
func (b *Backend) place(bales map[string]*Bale) {
	if maps.Equal(b.bales, bales) {
		return
	}
	b.bales, b.packs = bales, map[string]spot{}
	for _, one := range slices.SortedFunc(maps.Values(bales), (*Bale).compare) {
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
	bales := maps.Clone(b.bales)
	if bales == nil {
		bales = map[string]*Bale{}
	}
	bales[made.Key] = made
	b.place(bales)
}

// List implements [backend.Backend]. Loose packs are looked for first: one that somebody
// joins meanwhile is in a bale before it is not loose any more.
func (b *Backend) List(ctx context.Context, prefix string, see func(backend.Info) error) error {
	if !isPack(prefix) {
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
	if err := b.look(ctx, b.looked()); err != nil {
		return err
	}
	for _, one := range b.there() {
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

// All are the bales there are now. One that is there and cannot be read is an error, but
// for one that is damaged.
func (b *Backend) All(ctx context.Context) ([]*Bale, error) {
	if err := b.look(ctx, b.looked()); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, err := range b.unread {
		if !lost(err) {
			return nil, fmt.Errorf("looking for bales: %s cannot be read: %w", key, err)
		}
	}
	return slices.Collect(maps.Values(b.bales)), nil
}

// there are the bales that are known.
func (b *Backend) there() []*Bale {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.bales))
}

// Loose shows the packs that have an object of their own.
func (b *Backend) Loose(ctx context.Context, see func(backend.Info)) error {
	return b.inner.List(ctx, pack.Prefix, func(i backend.Info) error {
		see(i)
		return nil
	})
}

// DeleteLoose removes the object of its own that a pack has beside the one in a bale, unless
// it is better than that: what is damaged in the bale and whole by itself stays, and is
// returned.
func (b *Backend) DeleteLoose(ctx context.Context, key string, in *Bale, check Check) (better *backend.Info, err error) {
	own, err := backend.Read(ctx, b.inner, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // somebody else was faster
	}
	if err != nil {
		return nil, err
	}
	joined, err := b.read(ctx, in, key)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(own, joined) || isWhole(ctx, key, joined, check) == nil {
		return nil, b.inner.Delete(ctx, key)
	}
	if err := isWhole(ctx, key, own, check); err != nil {
		return nil, fmt.Errorf("%s is damaged, and in %s, too: %w", key, in.Key, err)
	}
	b.doubt(key, in.Key)
	at, _ := in.spot(key)
	return &backend.Info{Key: key, Size: int64(len(own)), Stored: at.stored}, nil
}

// Same says whether packs of a bale are the same in others that hold them, too; those for
// which there is none are not looked at.
func (b *Backend) Same(ctx context.Context, one *Bale, holder func(backend.Info) *Bale) (bool, error) {
	held := map[*Bale][]string{}
	for _, p := range one.Packs {
		if other := holder(p); other != nil {
			held[other] = append(held[other], p.Key)
		}
	}
	if len(held) == 0 {
		return true, nil
	}
	here, err := b.packsOf(ctx, one)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // somebody else found out
	}
	if err != nil {
		return false, err
	}
	for other, keys := range held {
		there, err := b.packsOf(ctx, other)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil // they moved on
		}
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(keys, func(key string) bool { return !bytes.Equal(here[key], there[key]) }) {
			return false, nil
		}
	}
	return true, nil
}

// packsOf are all packs of a bale, read at one go.
func (b *Backend) packsOf(ctx context.Context, in *Bale) (map[string][]byte, error) {
	content := make([]byte, in.Size)
	if err := b.inner.ReadAt(ctx, in.Key, 0, content); err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, p := range in.Packs {
		out[p.Key], content = content[:p.Size], content[p.Size:]
	}
	return out, nil
}

// read is a pack as it is in a bale.
func (b *Backend) read(ctx context.Context, in *Bale, key string) ([]byte, error) {
	at, ok := in.spot(key)
	if !ok {
		return nil, fmt.Errorf("%s has no %s: %w", in.Key, key, fs.ErrNotExist)
	}
	content := make([]byte, at.size)
	return content, b.inner.ReadAt(ctx, in.Key, at.begin, content)
}
