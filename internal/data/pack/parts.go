package pack

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/muster-dev/muster/internal/data/digest"
)

// checkSize is how many bytes of a hash protect the second part of a blob.
const checkSize = 16

// placeBytes is about what a place takes beside its pack's name.
const placeBytes = 10

// Join makes a blob of two parts. Its name is the hash of what alone.
func Join(what []byte, where *Places) (digest.ID, []byte) {
	id := digest.Of(what)
	guarded := where.append(append(where.scratch[:0], id[:]...))
	where.scratch = guarded
	blob := make([]byte, 0, binary.MaxVarintLen64+len(what)+len(guarded)-len(id)+checkSize)
	blob = binary.AppendUvarint(blob, uint64(len(what)))
	blob = append(blob, what...)
	blob = append(blob, guarded[len(id):]...)
	sum := digest.Of(guarded)
	return id, append(blob, sum[:checkSize]...)
}

// Split takes a blob of two parts apart, and checks both.
func Split(id digest.ID, blob []byte) (what, where []byte, err error) {
	length, n := binary.Uvarint(blob)
	if n <= 0 || length > uint64(len(blob)) || uint64(len(blob)) < uint64(n)+length+checkSize {
		return nil, nil, fmt.Errorf("blob %s is cut off: %w", id.Short(), ErrDamaged)
	}
	what, where = blob[n:n+int(length)], blob[n+int(length):len(blob)-checkSize]
	if found := digest.Of(what); found != id {
		return nil, nil, fmt.Errorf("content %s instead of %s: %w", found.Short(), id.Short(), ErrDamaged)
	}
	if sum := guard(id, where); string(sum[:checkSize]) != string(blob[len(blob)-checkSize:]) {
		return nil, nil, fmt.Errorf("the places in blob %s are not what they were: %w", id.Short(), ErrDamaged)
	}
	return what, where, nil
}

// guard is a hash of places, bound to the blob that they are of.
func guard(id digest.ID, where []byte) digest.ID {
	return digest.Of(append(id[:], where...))
}

// Places writes places, each pack's name once. The zero value has none.
type Places struct {
	names map[Name]uint64
	// last is the number of the pack of the last place: the next one is in it, too, more
	// often than not.
	last  uint64
	table []byte
	body  []byte
	// scratch is memory for [Join].
	scratch []byte
}

// Reset makes it as good as new, in the same memory.
func (p *Places) Reset() {
	clear(p.names)
	p.table, p.body = p.table[:0], p.body[:0]
}

// Packs is in how many packs the places are.
func (p *Places) Packs() int { return len(p.names) }

// Grow makes room for so many places.
func (p *Places) Grow(n int) { p.body = slices.Grow(p.body, placeBytes*n) }

// Add appends a place.
func (p *Places) Add(at Place) {
	p.body = binary.AppendUvarint(p.body, p.number(at.Pack))
	p.body = binary.AppendUvarint(p.body, uint64(at.Offset))
	p.body = binary.AppendUvarint(p.body, uint64(at.Stored))
	p.body = binary.AppendUvarint(p.body, uint64(at.Raw))
}

// number is that of a pack's name in the table.
func (p *Places) number(name Name) uint64 {
	if at := p.last * uint64(len(name)); at < uint64(len(p.table)) && Name(p.table[at:]) == name {
		return p.last
	}
	n, ok := p.names[name]
	if !ok {
		if p.names == nil {
			p.names = map[Name]uint64{}
		}
		n = uint64(len(p.names))
		p.names[name] = n
		p.table = append(p.table, name[:]...)
	}
	p.last = n
	return n
}

// append appends all of them.
func (p *Places) append(to []byte) []byte {
	to = slices.Grow(to, len(p.table)+len(p.body)+binary.MaxVarintLen64)
	to = binary.AppendUvarint(to, uint64(len(p.names)))
	return append(append(to, p.table...), p.body...)
}

// PlaceReader reads what Places wrote.
type PlaceReader struct {
	names []byte
	in    Scanner
}

// ReadPlaces begins to read places.
func ReadPlaces(where []byte) PlaceReader {
	r := PlaceReader{in: Scanner{Rest: where}}
	n := r.in.Uvarint()
	if n > uint64(len(r.in.Rest)/len(Name{})) {
		r.in.fail()
		return r
	}
	r.names = r.in.Bytes(n * uint64(len(Name{})))
	return r
}

// Next is the next place.
func (r *PlaceReader) Next() Place {
	n, size := r.in.Uvarint(), uint64(len(Name{}))
	p := Place{Offset: r.in.uint32(), Stored: r.in.uint32(), Raw: r.in.uint32()}
	if r.in.Err != nil || n >= uint64(len(r.names))/size {
		r.in.fail()
		return Place{}
	}
	p.Pack = Name(r.names[n*size:])
	return p
}

// End is nil if everything was read and nothing is left.
func (r *PlaceReader) End() error { return r.in.End() }

// Scanner reads numbers and bytes out of a part, and remembers the first error.
type Scanner struct {
	Rest []byte
	Err  error
}

func (s *Scanner) fail() {
	if s.Err == nil {
		s.Err = fmt.Errorf("a blob's parts do not fit together: %w", ErrDamaged)
	}
	s.Rest = nil
}

// Uvarint is the next number.
func (s *Scanner) Uvarint() uint64 {
	v, n := binary.Uvarint(s.Rest)
	if n <= 0 {
		s.fail()
		return 0
	}
	s.Rest = s.Rest[n:]
	return v
}

func (s *Scanner) uint32() uint32 {
	v := s.Uvarint()
	if v > 1<<32-1 {
		s.fail()
		return 0
	}
	return uint32(v)
}

// Byte is the next byte.
func (s *Scanner) Byte() byte {
	if b := s.Bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

// Bytes are the next n bytes, of the part itself.
func (s *Scanner) Bytes(n uint64) []byte {
	if n > uint64(len(s.Rest)) {
		s.fail()
		return nil
	}
	b := s.Rest[:n:n]
	s.Rest = s.Rest[n:]
	return b
}

// ID is the next hash.
func (s *Scanner) ID() digest.ID {
	if b := s.Bytes(digest.Size); len(b) == digest.Size {
		return digest.ID(b)
	}
	return digest.ID{}
}

// End is nil if everything could be read and nothing is left.
func (s *Scanner) End() error {
	if s.Err == nil && len(s.Rest) > 0 {
		s.fail()
	}
	return s.Err
}
