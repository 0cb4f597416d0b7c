package data

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/bale"
	"github.com/muster-dev/muster/internal/data/pack"
)

// joining says which packs are put together into bales.
type joining struct {
	// small packs are shorter than that.
	small int64
	// A bale is made of least bytes at least, or frees as many, and takes no more once it has
	// full.
	least, full int64
	// most is how many bales a collection makes, so that the next store has its turn.
	most int
}

// usualJoining makes objects of 8 to 36 MB.
var usualJoining = joining{small: 4 << 20, least: 8 << 20, full: pack.Full, most: 100}

const (
	// deletes is how many packs are made to be loose no more at once.
	deletes = 16
	// mostRaw bounds the blobs that are looked at: chunks, and lists and nodes, are shorter.
	mostRaw = 64 << 20
)

// bales are those there are, as a collection sees them.
type bales struct {
	all []*bale.Bale
	// loose are the packs with an object of their own.
	loose map[string]bool
	// superseded are packs of a bale that another one has, which is later and was there
	// when the oldest who still writes or reads began.
	superseded map[*bale.Bale]map[string]*bale.Bale
	// in are the bales that a pack is in and not superseded.
	in map[string][]*bale.Bale
	// living is how many bytes of the packs of each are needed, or may be, and holding how
	// many there are.
	living, holding map[*bale.Bale]int64
}

// lookAtBales finds out which there are, once it is known what is reached.
func (c *collection) lookAtBales(ctx context.Context, cutoff time.Time) error {
	b := &bales{loose: map[string]bool{}, superseded: map[*bale.Bale]map[string]*bale.Bale{}, in: map[string][]*bale.Bale{}, living: map[*bale.Bale]int64{}, holding: map[*bale.Bale]int64{}}
	c.bales = b
	if c.packs == nil { // others keep the bytes, and join packs
		return nil
	}
	err := c.packs.Loose(ctx, func(i backend.Info) { b.loose[i.Key] = true })
	if err != nil {
		return err
	}
	if b.all, err = c.packs.All(ctx); err != nil {
		return err
	}
	b.superseded = bale.Superseded(b.all, cutoff)
	for _, one := range b.all {
		for _, p := range one.Packs {
			b.holding[one] += p.Size
			if b.superseded[one][p.Key] != nil {
				continue
			}
			b.in[p.Key] = append(b.in[p.Key], one)
			if c.reach.reaches(p.Key) || !p.Stored.Before(cutoff) {
				b.living[one] += p.Size
			}
		}
	}
	return nil
}

// lies says that a pack is one of a bale that has others, which are needed: it stays with
// these.
func (b *bales) lies(key string) bool {
	return slices.ContainsFunc(b.in[key], func(one *bale.Bale) bool { return b.living[one] > 0 })
}

// drop removes bales of which every pack is in a later one, or is removed, and says which
// of these packs are in others still. It looks at bales anew, since somebody may have put
// together what has been condemned since.
func (c *collection) drop(ctx context.Context, cutoff time.Time, removed map[string]backend.Info) (remain map[string]bool, err error) {
	if c.packs == nil {
		return nil, nil
	}
	all, err := c.packs.All(ctx)
	if err != nil {
		return nil, err
	}
	superseded := bale.Superseded(all, cutoff)
	remain = map[string]bool{}
	for _, one := range all {
		gone := func(p backend.Info) bool { _, is := removed[p.Key]; return is }
		needed := slices.ContainsFunc(one.Packs, func(p backend.Info) bool { return !gone(p) && superseded[one][p.Key] == nil })
		if !needed {
			same, err := c.packs.Same(ctx, one, func(p backend.Info) *bale.Bale {
				if gone(p) {
					return nil
				}
				return superseded[one][p.Key]
			})
			if err != nil {
				return nil, err
			}
			needed = !same
		}
		if !needed {
			if err := c.backend.Delete(ctx, one.Key); err != nil {
				return nil, err
			}
			continue
		}
		for _, p := range one.Packs {
			if gone(p) {
				remain[p.Key] = true
			}
		}
	}
	return remain, nil
}

// join puts small packs together that are needed, and those of bales of which little is. A
// pack that was joined before all who read or write began is loose no more: who copies the
// store, or knows nothing of bales, has it at its place until then. What cannot be read, or
// is damaged, stays where it is, and is said in the end.
func (c *collection) join(ctx context.Context, cutoff time.Time) error {
	restored, unread := c.tidy(ctx, cutoff.Add(-2*c.o.Settle))
	groups := c.groups()
	if len(restored) > 0 {
		groups = append(groups, restored)
	}
	for _, group := range groups {
		if !c.fits(group) {
			continue
		}
		one, left, err := bale.Make(ctx, c.packs, group, c.whole)
		unread = append(unread, left...)
		if err != nil {
			return errors.Join(err, some(unread))
		}
		if one != nil {
			c.report.Joined += len(one.Packs)
		}
	}
	return errors.Join(ctx.Err(), some(unread))
}

// joinSpare is the part of a store's free room that a group may use if it frees room later, in
// bytes.
const joinSpare = 96 << 20

// fits reports whether the disk has room for a new bale of a group. The packs need room, too, until
// a later collection removes them.
func (c *collection) fits(group []backend.Info) bool {
	var size int64
	for _, p := range group {
		size += p.Size
	}
	if c.bales.dead(group) > size {
		size -= joinSpare
	}
	return c.room(size) == nil
}

// some are the first of many errors, and how many there are.
func some(all []error) error {
	const most = 3
	if len(all) <= most {
		return errors.Join(all...)
	}
	return errors.Join(append(slices.Clone(all[:most]), fmt.Errorf("and %d more", len(all)-most))...)
}

// whole says what is wrong with a blob. Packs are of whoever may write: what one says of
// itself is not believed.
func (c *collection) whole(r pack.Record, stored []byte) error {
	if r.Place.Raw > mostRaw {
		return fmt.Errorf("a blob of %d bytes: %w", r.Place.Raw, pack.ErrDamaged)
	}
	_, err := c.unpack(r.Kind, r.ID, r.Place, stored, nil)
	return err
}

// tidy removes the objects that packs have of their own though they are in bales that were
// stored before a moment. Those that are damaged there and whole by themselves, since
// somebody has put them back, are restored: they are to be joined anew.
func (c *collection) tidy(ctx context.Context, before time.Time) (restored []backend.Info, unread []error) {
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(deletes)
	for key := range c.bales.loose {
		n := slices.IndexFunc(c.bales.in[key], func(one *bale.Bale) bool { return one.Stored.Before(before) })
		if n < 0 || ctx.Err() != nil {
			continue
		}
		group.Go(func() error {
			better, err := c.packs.DeleteLoose(ctx, key, c.bales.in[key][n], c.whole)
			mu.Lock()
			defer mu.Unlock()
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				unread = append(unread, err)
			}
			if better != nil {
				restored = append(restored, *better)
			}
			return nil
		})
	}
	_ = group.Wait() // errors are collected
	return restored, unread
}

// groups are the packs of bales that are to be made. Putting them together changes nothing
// for who reads them, or is about to refer to them: whatever lives need not be waited for.
func (c *collection) groups() [][]backend.Info {
	if c.packs == nil {
		return nil
	}
	var packs []backend.Info
	for key, i := range c.objects {
		if _, err := pack.ParseKey(key); err != nil || !i.Stored.Before(c.grown) || i.Size >= c.joining.small || !c.reach.reaches(key) {
			continue
		}
		if len(c.bales.in[key]) == 0 || c.wasteful(key) {
			packs = append(packs, i)
		}
	}
	slices.SortFunc(packs, func(a, b backend.Info) int {
		return cmp.Or(a.Stored.Compare(b.Stored), cmp.Compare(a.Key, b.Key))
	})
	var groups [][]backend.Info
	first, size := 0, int64(0)
	for n, p := range packs {
		if size += p.Size; size >= c.joining.full {
			groups, first, size = append(groups, packs[first:n+1]), n+1, 0
		}
	}
	if rest := packs[first:]; size >= c.joining.least || c.bales.dead(rest) >= c.joining.least {
		groups = append(groups, rest)
	}
	return groups[:min(len(groups), c.joining.most)]
}

// dead is how much is not needed of the bales that some packs are in.
func (b *bales) dead(packs []backend.Info) (size int64) {
	seen := map[*bale.Bale]bool{}
	for _, p := range packs {
		for _, one := range b.in[p.Key] {
			if !seen[one] {
				seen[one] = true
				size += b.holding[one] - b.living[one]
			}
		}
	}
	return size
}

// wasteful says that a pack lies in bales alone of which less than half is needed.
func (c *collection) wasteful(key string) bool {
	return !c.bales.loose[key] && !slices.ContainsFunc(c.bales.in[key], func(one *bale.Bale) bool {
		return 2*c.bales.living[one] >= c.bales.holding[one]
	})
}
