package bale

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

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
	// longestList bounds what is believed of a list's length.
	longestList = 64 << 20
)

// Bale is one that is there.
type Bale struct {
	backend.Info
	// Packs are those in it, as if they were loose; each begins where the one before it ends.
	Packs []backend.Info
}

// later says that a bale was stored after another one; of two at the same time one is.
func (b *Bale) later(than *Bale) bool {
	return cmp.Or(b.Stored.Compare(than.Stored), cmp.Compare(b.Key, than.Key)) > 0
}

// listed is a pack as the list of a bale has it.
type listed struct {
	Key    string    `json:"key"`
	Size   int64     `json:"size"`
	Stored time.Time `json:"stored"`
}

// seal is a bale of the packs, whose contents are given in their order.
func seal(packs []backend.Info, contents [][]byte) ([]byte, error) {
	list := make([]listed, len(packs))
	size := 0
	for i, p := range packs {
		list[i] = listed{p.Key, p.Size, p.Stored}
		size += len(contents[i])
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("listing what is in a bale: %w", err)
	}
	out := make([]byte, 0, size+len(text)+trailerSize)
	for _, c := range contents {
		out = append(out, c...)
	}
	out = append(out, text...)
	sum := digest.Of(text)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(text)))
	out = append(out, sum[:]...)
	return append(out, magic...), nil
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
		if _, err := pack.ParseKey(l.Key); err != nil || l.Size < 0 || l.Size > i.Size {
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

// Make puts packs, loose or not, into a bale of their own, and returns it once it is
// durable. They stay where they are beside that. What is not whole stays out, and a bale
// of nothing is not made.
func Make(ctx context.Context, b *Backend, packs []backend.Info) (*Bale, error) {
	var whole []backend.Info
	var contents [][]byte
	for _, p := range packs {
		content, err := backend.Read(ctx, b, p.Key)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("joining packs: %w", err)
		}
		if !b.whole(ctx, p.Key, content) {
			continue
		}
		p.Size = int64(len(content))
		whole, contents = append(whole, p), append(contents, content)
	}
	if len(whole) == 0 {
		return nil, nil //nolint:nilnil // nothing of them is no error
	}
	content, err := seal(whole, contents)
	if err != nil {
		return nil, err
	}
	name, err := pack.NewName()
	if err != nil {
		return nil, fmt.Errorf("naming a bale: %w", err)
	}
	key := Prefix + name.String()
	if err := b.inner.Put(ctx, key, content); err != nil {
		return nil, fmt.Errorf("storing a bale: %w", err)
	}
	info, err := b.inner.Stat(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("storing a bale: %w", err)
	}
	made, err := read(ctx, b.inner, info)
	if err != nil {
		return nil, fmt.Errorf("reading a bale that was stored: %w", err)
	}
	b.note(made)
	return made, nil
}

// Superseded says of the packs of a bale which have a later holder that was stored before
// a moment.
func Superseded(of *Bale, all []*Bale, before time.Time) map[string]bool {
	out := map[string]bool{}
	for _, other := range all {
		if !other.later(of) || !other.Stored.Before(before) {
			continue
		}
		for _, p := range other.Packs {
			if slices.ContainsFunc(of.Packs, func(q backend.Info) bool { return q.Key == p.Key }) {
				out[p.Key] = true
			}
		}
	}
	return out
}

// is says whether a key is that of a pack, or the beginning of such.
func is(key string) bool { return strings.HasPrefix(key, pack.Prefix) }
