package pack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/digest"
)

func TestPacksSurvive(t *testing.T) {
	c, err := NewCodec(1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	b, err := NewBuilder([]byte("what was in the buffer before"))
	if err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 100_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	raws := [][]byte{[]byte("x"), []byte(strings.Repeat("again and ", 20_000)), noise, []byte(strings.Repeat("a", 100))}
	var want []Record
	for _, raw := range raws {
		id := digest.Of(raw)
		at := b.Add(id, Data, len(raw), c.Encode(raw, nil))
		want = append(want, Record{ID: id, Kind: Data, Place: at})
	}
	content := b.Seal()
	if len(content) > 110_000 {
		t.Errorf("%d bytes: nothing was compressed", len(content))
	}
	store := &backend.Memory{}
	if err := store.Put(t.Context(), b.Name().Key(), content); err != nil {
		t.Fatal(err)
	}
	got, err := ReadIndex(t.Context(), store, b.Name(), int64(len(content)))
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	for i, r := range got {
		p := r.Place
		raw, err := c.Decode(p, content[p.Offset:p.Offset+p.Stored], nil)
		if err != nil || !bytes.Equal(raw, raws[i]) || Check(r.ID, r.Kind, raw) != nil {
			t.Errorf("blob %d: %d bytes (%v)", i, len(raw), err)
		}
	}
	if name, err := ParseKey(b.Name().Key()); err != nil || name != b.Name() {
		t.Errorf("%s %v", name, err)
	}
}

// TestLongIndices: of a pack with so many blobs that its index takes a read more.
func TestLongIndices(t *testing.T) {
	b, err := NewBuilder(nil)
	if err != nil {
		t.Fatal(err)
	}
	var want []Record
	for i := range 5000 {
		text := fmt.Append(nil, i)
		id := digest.Of(text)
		want = append(want, Record{ID: id, Kind: Data, Place: b.Add(id, Data, len(text), text)})
	}
	content := b.Seal()
	store := &backend.Memory{}
	if err := store.Put(t.Context(), b.Name().Key(), content); err != nil {
		t.Fatal(err)
	}
	got, err := ReadIndex(t.Context(), store, b.Name(), int64(len(content)))
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
}

// TestDamagedIndices: an index that is damaged or cut off is never believed.
func TestDamagedIndices(t *testing.T) {
	b, err := NewBuilder(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		text := fmt.Append(nil, i)
		b.Add(digest.Of(text), Data, len(text), text)
	}
	content := b.Seal()
	store := &backend.Memory{}
	blobs := len(magic) + 3
	try := func(what string, damaged []byte) {
		t.Helper()
		if err := store.Put(t.Context(), b.Name().Key(), damaged); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadIndex(t.Context(), store, b.Name(), int64(len(damaged))); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range content {
		try(fmt.Sprint("cut off at ", i), content[:i])
		if i < blobs {
			continue // a blob's bytes are checked against its name
		}
		content[i] ^= 8
		try(fmt.Sprint("flipped at ", i), content)
		content[i] ^= 8
	}
}

func TestDecodeRefuses(t *testing.T) {
	c, err := NewCodec(1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	frame := c.Encode([]byte(strings.Repeat("x", 1000)), nil)
	for name, p := range map[string]Place{
		"another length": {Stored: uint32(len(frame)), Raw: 999},
		"more stored":    {Stored: uint32(len(frame)), Raw: 3},
		"too much":       {Stored: uint32(len(frame)), Raw: 1<<32 - 1},
		"cut off":        {Stored: uint32(len(frame)) - 4, Raw: 1000},
	} {
		if _, err := c.Decode(p, frame[:p.Stored], nil); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPlaces: places are read as they were written, however often their packs change, also
// in memory that had others before; and the blob is the same as in new memory.
func TestPlaces(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var used Places
	for _, packs := range []int{1, 200, 3, 1, 40} {
		places := make([]Place, 150)
		for i := range places {
			places[i] = Place{Pack: Name{byte(random.IntN(packs)), 1}, Offset: random.Uint32(), Stored: uint32(i), Raw: uint32(2 * i)}
		}
		var fresh Places
		used.Reset()
		for _, at := range places {
			fresh.Add(at)
			used.Add(at)
		}
		id, blob := Join([]byte("what"), &used)
		if _, same := Join([]byte("what"), &fresh); !bytes.Equal(blob, same) {
			t.Errorf("%d packs: other bytes in memory that was used", packs)
		}
		what, where, err := Split(id, blob)
		if err != nil || string(what) != "what" {
			t.Fatalf("%d packs: %q, %v", packs, what, err)
		}
		r := ReadPlaces(where)
		for i, want := range places {
			if got := r.Next(); got != want {
				t.Fatalf("%d packs: place %d is %v instead of %v", packs, i, got, want)
			}
		}
		if err := r.End(); err != nil {
			t.Errorf("%d packs: %v", packs, err)
		}
	}
}

// FuzzPlaces: no places, however they were made, do harm.
func FuzzPlaces(f *testing.F) {
	var p Places
	p.Add(Place{Pack: Name{1}, Offset: 2, Stored: 3, Raw: 4})
	p.Add(Place{Pack: Name{5}, Offset: 6, Stored: 7, Raw: 8})
	f.Add(p.append(nil))
	f.Fuzz(func(_ *testing.T, where []byte) {
		r := ReadPlaces(where)
		for range 3 {
			r.Next()
		}
		_ = r.End()
	})
}

// TestAnIndexThatWraps: lengths that add up to the right one beyond 32 bits are refused.
func TestAnIndexThatWraps(t *testing.T) {
	name, err := NewName()
	if err != nil {
		t.Fatal(err)
	}
	var index []byte
	for _, stored := range []uint32{0xFFFFFFF0, 0x20} { // 16 in 32 bits
		index = append(index, make([]byte, digest.Size)...)
		index = append(index, byte(Data))
		index = binary.LittleEndian.AppendUint32(index, stored)
		index = binary.LittleEndian.AppendUint32(index, stored)
	}
	content := append([]byte(magic), make([]byte, 16)...)
	content = append(content, index...)
	content = binary.LittleEndian.AppendUint32(content, uint32(len(index)))
	sum := digest.Of(index)
	content = append(append(content, sum[:]...), magic...)
	b := &backend.Memory{}
	if err := b.Put(t.Context(), name.Key(), content); err != nil {
		t.Fatal(err)
	}
	if records, err := ReadIndex(t.Context(), b, name, int64(len(content))); !errors.Is(err, ErrDamaged) {
		t.Errorf("%+v, %v", records, err)
	}
}
