package data

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/bale"
	"github.com/muster-dev/muster/internal/data/pack"
)

// joining says which packs are put together into bales.
type joining struct {
	// small packs are shorter than that.
	small int64
	// A bale is made of least bytes at least, and takes no more once it has full.
	least, full int64
}

// usualJoining makes objects of 8 to 36 MB.
var usualJoining = joining{small: 4 << 20, least: 8 << 20, full: pack.Full}

// bales are those there are, as a collection sees them.
type bales struct {
	all []*bale.Bale
	// loose are the packs with an object of their own.
	loose map[string]bool
	// superseded are packs of a bale that another one has, which is later and was there
	// when the oldest who still writes or reads began.
	superseded map[*bale.Bale]map[string]bool
	// in are the bales that a pack is in and not superseded.
	in map[string][]*bale.Bale
	// living is how many bytes of the packs of each are needed, or may be, and holding how
	// many there are.
	living, holding map[*bale.Bale]int64
}

// lookAtBales finds out which there are, once it is known what is reached.
func (c *collection) lookAtBales(ctx context.Context, cutoff time.Time) error {
	b := &bales{loose: map[string]bool{}, superseded: map[*bale.Bale]map[string]bool{}, in: map[string][]*bale.Bale{}, living: map[*bale.Bale]int64{}, holding: map[*bale.Bale]int64{}}
	c.bales = b
	if c.packs == nil { // others keep the bytes, and join packs
		return nil
	}
	var err error
	if b.all, err = c.packs.All(ctx); err != nil {
		return err
	}
	err = c.packs.Loose(ctx, func(i backend.Info) { b.loose[i.Key] = true })
	if err != nil {
		return err
	}
	for _, one := range b.all {
		b.superseded[one] = bale.Superseded(one, b.all, cutoff)
		for _, p := range one.Packs {
			b.holding[one] += p.Size
			if b.superseded[one][p.Key] {
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

// drop removes bales of which every pack is in a later one, or is removed.
func (c *collection) drop(ctx context.Context, removed map[string]bool) error {
	for _, one := range c.bales.all {
		needed := slices.ContainsFunc(one.Packs, func(p backend.Info) bool {
			return !removed[p.Key] && !c.bales.superseded[one][p.Key]
		})
		if needed {
			continue
		}
		if err := c.backend.Delete(ctx, one.Key); err != nil {
			return err
		}
	}
	return nil
}

// join puts small packs together that are needed, and those of bales of which little is. A
// pack that was joined before, and is loose still, is loose no more.
func (c *collection) join(ctx context.Context, cutoff time.Time) error {
	var moved []string
	for key := range c.bales.loose {
		if slices.ContainsFunc(c.bales.in[key], func(one *bale.Bale) bool { return one.Stored.Before(cutoff) }) {
			moved = append(moved, key)
		}
	}
	made := false
	for _, group := range c.groups(cutoff) {
		one, err := bale.Make(ctx, c.packs, group)
		if err != nil {
			return err
		}
		if one == nil {
			continue
		}
		made = true
		c.report.Joined += len(one.Packs)
		for _, p := range one.Packs {
			if c.bales.loose[p.Key] {
				moved = append(moved, p.Key)
			}
		}
	}
	if made {
		if err := wait(ctx, 2*c.o.Settle); err != nil {
			return err
		}
	}
	for _, key := range moved {
		if err := c.backend.Delete(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// groups are the packs of bales that are to be made.
func (c *collection) groups(cutoff time.Time) [][]backend.Info {
	if c.packs == nil {
		return nil
	}
	var packs []backend.Info
	for key, i := range c.objects {
		if _, err := pack.ParseKey(key); err != nil || !i.Stored.Before(cutoff) || i.Size >= c.joining.small || !c.reach.reaches(key) {
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
	if size >= c.joining.least {
		groups = append(groups, packs[first:])
	}
	return groups
}

// wasteful says that a pack lies in bales alone of which less than half is needed.
func (c *collection) wasteful(key string) bool {
	return !c.bales.loose[key] && !slices.ContainsFunc(c.bales.in[key], func(one *bale.Bale) bool {
		return 2*c.bales.living[one] >= c.bales.holding[one]
	})
}
