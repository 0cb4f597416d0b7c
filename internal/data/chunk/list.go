package chunk

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
)

// Piece is one chunk of a file.
type Piece struct {
	ID digest.ID
	// Size is how many bytes of the file it is; Place.Raw is the same.
	Size  int64
	Place pack.Place
}

// listVersion begins every list.
const listVersion = 'L'

// EncodeList is the blob for a file's pieces, and its name, which depends on the
// content alone.
func EncodeList(pieces []Piece) (digest.ID, []byte) {
	what := append(make([]byte, 0, 8+len(pieces)*(digest.Size+4)), listVersion)
	what = binary.AppendUvarint(what, uint64(len(pieces)))
	var where pack.Places
	for _, p := range pieces {
		what = append(what, p.ID[:]...)
		what = binary.AppendUvarint(what, uint64(p.Size))
		where.Add(p.Place)
	}
	return pack.Join(what, &where)
}

// DecodeList reads what EncodeList wrote, for a file of a size.
func DecodeList(id digest.ID, blob []byte, size int64) ([]Piece, error) {
	what, where, err := pack.Split(id, blob)
	if err != nil {
		return nil, fmt.Errorf("reading a list of chunks: %w", err)
	}
	in := pack.Scanner{Rest: what}
	if in.Byte() != listVersion {
		return nil, fmt.Errorf("%s is no list of chunks: %w", id.Short(), pack.ErrDamaged)
	}
	n := in.Uvarint()
	if n > uint64(len(what)/digest.Size) {
		return nil, fmt.Errorf("list %s of %d chunks is too short for them: %w", id.Short(), n, pack.ErrDamaged)
	}
	places := pack.ReadPlaces(where)
	pieces := make([]Piece, n)
	var total uint64
	for i := range pieces {
		id, length := in.ID(), in.Uvarint()
		if length > math.MaxInt64-total {
			return nil, fmt.Errorf("list %s is of more bytes than there can be: %w", id.Short(), pack.ErrDamaged)
		}
		total += length
		pieces[i] = Piece{ID: id, Size: int64(length), Place: places.Next()}
	}
	for _, err := range []error{in.End(), places.End()} {
		if err != nil {
			return nil, fmt.Errorf("reading list %s: %w", id.Short(), err)
		}
	}
	if total != uint64(size) {
		return nil, fmt.Errorf("list %s is of %d bytes, and the file has %d: %w", id.Short(), total, size, pack.ErrDamaged)
	}
	return pieces, nil
}
