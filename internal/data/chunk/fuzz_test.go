package chunk

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
)

// FuzzDecodeList: a list that is read is of pieces that are the file, as it is written again.
func FuzzDecodeList(f *testing.F) {
	pieces := []Piece{
		{ID: digest.Of([]byte("a")), Size: 1, Place: pack.Place{Pack: pack.Name{1}, Offset: 8, Stored: 1, Raw: 1}},
		{ID: digest.Of([]byte("b")), Size: 1 << 40, Place: pack.Place{Pack: pack.Name{2}, Offset: 9, Stored: 1, Raw: 1}},
	}
	id, blob := EncodeList(pieces)
	what, where, err := pack.Split(id, blob)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(what, where, int64(1<<40+1))
	f.Add([]byte{listVersion, 255, 255, 255, 255, 15}, []byte{}, int64(-1))
	f.Fuzz(func(t *testing.T, what, where []byte, size int64) {
		id := digest.Of(what)
		sum := digest.Of(slices.Concat(id[:], where))
		got, err := DecodeList(id, slices.Concat(binary.AppendUvarint(nil, uint64(len(what))), what, where, sum[:16]), size)
		if err != nil {
			return
		}
		var total int64
		for _, p := range got {
			if total += p.Size; p.Size < 0 || total < 0 {
				t.Fatalf("a piece of %d bytes, %d in all", p.Size, total)
			}
		}
		written, blob := EncodeList(got)
		again, err := DecodeList(written, blob, size)
		if err != nil || total != size || !slices.Equal(got, again) {
			t.Fatalf("%d bytes of %d, read again as %v: %v", total, size, again, err)
		}
	})
}
