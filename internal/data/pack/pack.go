package pack

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/digest"
)

// Full is the length in bytes from which a pack takes no more.
const Full = 32 << 20

// Prefix is what the keys of all packs begin with.
const Prefix = "packs/"

// A pack that has grown so far will be full, and gets room for that at once.
const (
	growing = 2 << 20
	roomy   = Full + 6<<20
)

const (
	magic       = "MUSTRPK1"
	recordSize  = digest.Size + 1 + 4 + 4
	trailerSize = 4 + digest.Size + len(magic)
	maxIndex    = 256 << 20
	// tailSize is how much of the end is read first.
	tailSize = 64 << 10
)

// Name names a pack. It is random.
type Name [16]byte

// NewName is a name that no pack has.
func NewName() (Name, error) {
	var n Name
	_, err := rand.Read(n[:])
	return n, err
}

// String is the name in 32 hexadecimal digits.
func (n Name) String() string { return hex.EncodeToString(n[:]) }

// Key is the key of the pack's object.
func (n Name) Key() string {
	s := n.String()
	return Prefix + s[:2] + "/" + s
}

// ParseKey reads what [Name.Key] wrote.
func ParseKey(key string) (Name, error) {
	var n Name
	text := key[strings.LastIndexByte(key, '/')+1:]
	if len(text) == 2*len(n) {
		if _, err := hex.Decode(n[:], []byte(text)); err == nil && n.Key() == key {
			return n, nil
		}
	}
	return Name{}, fmt.Errorf("%q is not the key of a pack: %w", key, ErrDamaged)
}

// Kind says how a blob is checked against its name.
type Kind byte

// The kinds of blobs.
const (
	// Data: the name is the hash of the bytes.
	Data Kind = 1
	// List and Node: blobs of two parts; the name is the hash of the first.
	List Kind = 2
	Node Kind = 3
)

// Place is where a blob lies. The zero place is nowhere.
type Place struct {
	Pack Name
	// Offset is where it begins, Stored how many bytes it has there, Raw how many
	// it really has. It is compressed where Stored is less than Raw.
	Offset, Stored, Raw uint32
}

// IsZero says that a place is nowhere.
func (p Place) IsZero() bool { return p == Place{} }

// String is the place as messages have it.
func (p Place) String() string {
	return fmt.Sprintf("%s, %d bytes at %d", p.Pack.Key(), p.Stored, p.Offset)
}

// Record is one blob in the index of a pack.
type Record struct {
	ID    digest.ID
	Kind  Kind
	Place Place
}

// Builder makes one pack in memory. It is for one goroutine.
type Builder struct {
	name    Name
	buf     []byte
	records []Record
}

// NewBuilder begins a pack. The buffer is reused, whatever is in it.
func NewBuilder(buf []byte) (*Builder, error) {
	name, err := NewName()
	if err != nil {
		return nil, fmt.Errorf("naming a pack: %w", err)
	}
	return &Builder{name: name, buf: append(buf[:0], magic...)}, nil
}

// Name is the name that the pack will have.
func (b *Builder) Name() Name { return b.name }

// Records are what is in it so far; they are good until something is added.
func (b *Builder) Records() []Record { return b.records }

// Len is how long the blobs are together.
func (b *Builder) Len() int { return len(b.buf) }

// Bytes is what is in it so far; it is good until something is added.
func (b *Builder) Bytes() []byte { return b.buf }

// Add puts a blob in, as it is stored, and says where it will lie.
func (b *Builder) Add(id digest.ID, kind Kind, raw int, stored []byte) Place {
	place := Place{Pack: b.name, Offset: uint32(len(b.buf)), Stored: uint32(len(stored)), Raw: uint32(raw)}
	if n := len(b.buf); n > growing && n+len(stored) > cap(b.buf) {
		b.buf = append(make([]byte, 0, max(n+len(stored), roomy)), b.buf...)
	}
	b.buf = append(b.buf, stored...)
	b.records = append(b.records, Record{ID: id, Kind: kind, Place: place})
	return place
}

// Seal is the whole pack; the builder is not used any more.
func (b *Builder) Seal() []byte {
	at := len(b.buf)
	for _, r := range b.records {
		b.buf = append(b.buf, r.ID[:]...)
		b.buf = append(b.buf, byte(r.Kind))
		b.buf = binary.LittleEndian.AppendUint32(b.buf, r.Place.Stored)
		b.buf = binary.LittleEndian.AppendUint32(b.buf, r.Place.Raw)
	}
	sum := digest.Of(b.buf[at:])
	b.buf = binary.LittleEndian.AppendUint32(b.buf, uint32(len(b.buf)-at))
	b.buf = append(b.buf, sum[:]...)
	return append(b.buf, magic...)
}

// ErrDamaged is wrapped by errors about packs and blobs that are not what they
// should be.
var ErrDamaged = errors.New("damaged")

// ReadIndex reads which blobs a pack of a length has: at one go where the index is
// not long, else at two.
func ReadIndex(ctx context.Context, b backend.Backend, name Name, size int64) ([]Record, error) {
	if size < int64(len(magic)+trailerSize) {
		return nil, fmt.Errorf("%s has %d bytes, too few for a pack: %w", name.Key(), size, ErrDamaged)
	}
	tail := make([]byte, min(size, tailSize))
	if err := b.ReadAt(ctx, name.Key(), size-int64(len(tail)), tail); err != nil {
		return nil, err
	}
	trailer := tail[len(tail)-trailerSize:]
	length := int64(binary.LittleEndian.Uint32(trailer))
	if string(trailer[4+digest.Size:]) != magic || length%recordSize != 0 || length > maxIndex || length > size-int64(trailerSize+len(magic)) {
		return nil, fmt.Errorf("%s does not end as a pack does: %w", name.Key(), ErrDamaged)
	}
	index := tail[:len(tail)-trailerSize]
	if skip := int64(len(index)) - length; skip >= 0 {
		index = index[skip:]
	} else {
		index = make([]byte, length)
		if err := b.ReadAt(ctx, name.Key(), size-int64(trailerSize)-length, index); err != nil {
			return nil, err
		}
	}
	if sum := digest.Of(index); !bytes.Equal(sum[:], trailer[4:4+digest.Size]) {
		return nil, fmt.Errorf("the index of %s is not what it was: %w", name.Key(), ErrDamaged)
	}
	return parseIndex(name, index, size)
}

// parseIndex reads the index of a pack of a length.
func parseIndex(name Name, index []byte, size int64) ([]Record, error) {
	length := int64(len(index))
	records := make([]Record, 0, length/recordSize)
	offset, end := int64(len(magic)), size-length-int64(trailerSize)
	for ; len(index) > 0; index = index[recordSize:] {
		r := Record{ID: digest.ID(index[:digest.Size]), Kind: Kind(index[digest.Size])}
		r.Place = Place{
			Pack: name, Offset: uint32(offset),
			Stored: binary.LittleEndian.Uint32(index[digest.Size+1:]),
			Raw:    binary.LittleEndian.Uint32(index[digest.Size+5:]),
		}
		if offset += int64(r.Place.Stored); offset > min(end, math.MaxUint32) {
			break
		}
		records = append(records, r)
	}
	if offset != end {
		return nil, fmt.Errorf("%s has %d bytes, and its index says %d: %w", name.Key(), size, offset+length+int64(trailerSize), ErrDamaged)
	}
	return records, nil
}
