package bale

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
)

// Prefix is what the keys of all bales begin with.
const Prefix = "bales/"

const (
	magic       = "MUSTRBL1"
	trailerSize = 4 + digest.Size + len(magic)
	// tailSize is how much of the end is read first.
	tailSize = 64 << 10
	// listedSize is about how long what is said of a pack is.
	listedSize = 128
	// longestList bounds what is believed of a list's length.
	longestList = 64 << 20
)

// Bale is one that is there.
type Bale struct {
	backend.Info
	// Packs are those in it, as if they were loose; each begins where the one before it ends.
	Packs []backend.Info
}

// compare orders bales by when they were stored; of two at the same time one is the later.
func (b *Bale) compare(with *Bale) int {
	return cmp.Or(b.Stored.Compare(with.Stored), cmp.Compare(b.Key, with.Key))
}

// spot is where a pack lies in the bale.
func (b *Bale) spot(key string) (spot, bool) {
	var begin int64
	for _, p := range b.Packs {
		if p.Key == key {
			return spot{b.Key, begin, p.Size, p.Stored}, true
		}
		begin += p.Size
	}
	return spot{}, false
}

// listed is a pack as the list of a bale has it.
type listed struct {
	Key    string    `json:"key"`
	Size   int64     `json:"size"`
	Stored time.Time `json:"stored"`
}

// seal ends a bale whose packs are there one after another; it may write behind them.
func seal(packs []backend.Info, bale []byte) ([]byte, error) {
	list := make([]listed, len(packs))
	for i, p := range packs {
		list[i] = listed{p.Key, p.Size, p.Stored}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("listing what is in a bale: %w", err)
	}
	bale = append(bale, text...)
	sum := digest.Of(text)
	bale = binary.LittleEndian.AppendUint32(bale, uint32(len(text)))
	bale = append(bale, sum[:]...)
	return append(bale, magic...), nil
}

// read reads what is in a bale.
func read(ctx context.Context, b backend.Backend, i backend.Info) (*Bale, error) {
	if i.Size < int64(trailerSize) {
		return nil, fmt.Errorf("%s has %d bytes, too few for a bale: %w", i.Key, i.Size, pack.ErrDamaged)
	}
	tail := make([]byte, min(i.Size, tailSize))
	if err := b.ReadAt(ctx, i.Key, i.Size-int64(len(tail)), tail); err != nil {
		return nil, err
	}
	trailer := tail[len(tail)-trailerSize:]
	length := int64(binary.LittleEndian.Uint32(trailer))
	if string(trailer[4+digest.Size:]) != magic || length > longestList || length > i.Size-int64(trailerSize) {
		return nil, fmt.Errorf("%s does not end as a bale does: %w", i.Key, pack.ErrDamaged)
	}
	text := tail[:len(tail)-trailerSize]
	if skip := int64(len(text)) - length; skip >= 0 {
		text = text[skip:]
	} else {
		text = make([]byte, length)
		if err := b.ReadAt(ctx, i.Key, i.Size-int64(trailerSize)-length, text); err != nil {
			return nil, err
		}
	}
	if sum := digest.Of(text); string(sum[:]) != string(trailer[4:4+digest.Size]) {
		return nil, fmt.Errorf("the list of %s is not what it was: %w", i.Key, pack.ErrDamaged)
	}
	return parse(i, text)
}

// parse reads the list of a bale.
func parse(i backend.Info, text []byte) (*Bale, error) {
	var list []listed
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("reading the list of %s: %w: %w", i.Key, pack.ErrDamaged, err)
	}
	out := &Bale{Info: i}
	var size int64
	for _, l := range list {
		if _, err := pack.ParseKey(l.Key); err != nil || l.Size < 0 || l.Size > i.Size-size {
			return nil, fmt.Errorf("%s says that it has %q of %d bytes: %w", i.Key, l.Key, l.Size, pack.ErrDamaged)
		}
		out.Packs = append(out.Packs, backend.Info(l))
		size += l.Size
	}
	if size+int64(len(text)+trailerSize) != i.Size {
		return nil, fmt.Errorf("%s has %d bytes, and its list says %d: %w", i.Key, i.Size, size+int64(len(text)+trailerSize), pack.ErrDamaged)
	}
	return out, nil
}

// Check looks whether stored bytes are the blob that they are said to be.
type Check func(blob pack.Record, stored []byte) error

// Make puts packs, loose or not, into a bale of their own, and returns it once it is
// durable and was read again. They stay where they are beside that. What went stays out, and
// what cannot be read or is damaged, of which unread says why. A bale of nothing is not
// made: it is nil, as is one that somebody removed meanwhile.
func Make(ctx context.Context, b *Backend, packs []backend.Info, check Check) (made *Bale, unread []error, err error) {
	whole, contents, unread := gather(ctx, b, packs, check)
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if len(whole) == 0 {
		return nil, unread, nil
	}
	content, err := seal(whole, contents)
	if err != nil {
		return nil, unread, err
	}
	name, err := pack.NewName()
	if err != nil {
		return nil, unread, fmt.Errorf("naming a bale: %w", err)
	}
	key := Prefix + name.String()
	if err := b.inner.Put(ctx, key, content); err != nil {
		return nil, unread, fmt.Errorf("storing a bale: %w", err)
	}
	info, err := b.inner.Stat(ctx, key)
	if err == nil {
		err = compare(ctx, b.inner, key, content)
	}
	switch {
	case err == nil:
		made = &Bale{Info: info, Packs: whole}
		b.note(made)
		return made, unread, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, unread, nil
	case errors.Is(err, pack.ErrDamaged):
		err = errors.Join(err, b.inner.Delete(ctx, key))
	}
	return nil, unread, fmt.Errorf("reading a bale that was stored: %w", err)
}

// gather reads packs one after another into one place: which are whole, and their contents.
func gather(ctx context.Context, b *Backend, packs []backend.Info, check Check) (whole []backend.Info, contents []byte, unread []error) {
	var size int64
	begins := make([]int64, len(packs))
	for n, p := range packs {
		begins[n], size = size, size+p.Size
	}
	room := size + int64(len(packs)*listedSize+trailerSize) // so that the list needs no other one
	contents, failed := make([]byte, size, room), make([]error, len(packs))
	var group errgroup.Group
	group.SetLimit(reads)
	for n, p := range packs {
		group.Go(func() error {
			failed[n] = b.ReadAt(ctx, p.Key, 0, contents[begins[n]:begins[n]+p.Size])
			return nil
		})
	}
	_ = group.Wait() // each has its own error
	var end int64
	for n, p := range packs {
		part, err := contents[begins[n]:begins[n]+p.Size], failed[n]
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = isWhole(ctx, p.Key, part, check)
		}
		if err != nil {
			unread = append(unread, fmt.Errorf("joining packs: %s stays as it is: %w", p.Key, err))
			continue
		}
		end += int64(copy(contents[end:], part))
		whole = append(whole, p)
	}
	return whole, contents[:end], unread
}

// isWhole says what is wrong with a pack, and its blobs.
func isWhole(ctx context.Context, key string, content []byte, check Check) error {
	name, err := pack.ParseKey(key)
	if err != nil {
		return err
	}
	alone := &backend.Memory{}
	if err := alone.Put(ctx, key, content); err != nil {
		return err
	}
	records, err := pack.ReadIndex(ctx, alone, name, int64(len(content)))
	if err != nil {
		return err
	}
	for _, r := range records {
		if err := check(r, content[r.Place.Offset:r.Place.Offset+r.Place.Stored]); err != nil {
			return err
		}
	}
	return nil
}

// compare reads what was stored, piece by piece.
func compare(ctx context.Context, b backend.Backend, key string, with []byte) error {
	piece := make([]byte, min(len(with), 1<<20))
	for at := 0; at < len(with); at += len(piece) {
		piece = piece[:min(len(piece), len(with)-at)]
		if err := b.ReadAt(ctx, key, int64(at), piece); err != nil {
			return err
		}
		if !bytes.Equal(piece, with[at:at+len(piece)]) {
			return fmt.Errorf("%s is not what was written: %w", key, pack.ErrDamaged)
		}
	}
	return nil
}

// Superseded are the packs of each bale which have a later holder that was stored before
// a moment, with that.
func Superseded(all []*Bale, before time.Time) map[*Bale]map[string]*Bale {
	last := map[string]*Bale{}
	for _, one := range all {
		if !one.Stored.Before(before) {
			continue
		}
		for _, p := range one.Packs {
			if known := last[p.Key]; known == nil || one.compare(known) > 0 {
				last[p.Key] = one
			}
		}
	}
	out := map[*Bale]map[string]*Bale{}
	for _, one := range all {
		out[one] = map[string]*Bale{}
		for _, p := range one.Packs {
			if by := last[p.Key]; by != nil && by.compare(one) > 0 {
				out[one][p.Key] = by
			}
		}
	}
	return out
}

// isPack says whether a key is that of a pack, or the beginning of such.
func isPack(key string) bool { return strings.HasPrefix(key, pack.Prefix) }

// isBale says whether a key is that of a bale.
func isBale(key string) bool {
	name, ok := strings.CutPrefix(key, Prefix)
	raw, err := hex.DecodeString(name)
	return ok && err == nil && len(raw) == len(pack.Name{})
}
