package chunk

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/pack"
)

func noise(seed byte, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// cuts are where data is cut.
func cuts(data []byte) []int {
	var all []int
	at := 0
	for at < len(data) {
		at += Cut(data[at:])
		all = append(all, at)
	}
	return all
}

func TestLengths(t *testing.T) {
	data := noise(1, 96<<20)
	last, longest := 0, 0
	all := cuts(data)
	for i, at := range all {
		n := at - last
		if n > Max || n < Min && i < len(all)-1 {
			t.Errorf("chunk %d has %d bytes", i, n)
		}
		longest = max(longest, n)
		last = at
	}
	if mean := len(data) / len(all); mean < 5<<18 || mean > 7<<18 || longest == Min {
		t.Errorf("%d chunks of %d bytes on average", len(all), mean)
	}
	for _, n := range []int{0, 1, Min, Max} {
		zeros := make([]byte, n)
		if got := Cut(zeros); got != n {
			t.Errorf("%d zeros: cut at %d", n, got)
		}
	}
}

// TestCutsAreKept: what was cut before is cut in the same way again. Other cuts
// would find nothing of what is stored already.
func TestCutsAreKept(t *testing.T) {
	want := []int{1633549, 2160994, 3861927, 4749101, 7158102, 8388608}
	if d := cmp.Diff(want, cuts(noise(2, 8<<20))); d != "" {
		t.Error(d)
	}
}

// TestEditsMoveFewCuts: before an edit all cuts stay, and soon behind it.
func TestEditsMoveFewCuts(t *testing.T) {
	data := noise(3, 64<<20)
	before := cuts(data)
	at := 20 << 20
	for name, c := range map[string]struct {
		edited []byte
		shift  int
	}{
		"one byte changed":  {slices.Concat(data[:at], []byte{data[at] ^ 1}, data[at+1:]), 0},
		"a byte inserted":   {slices.Concat(data[:at], []byte{0}, data[at:]), 1},
		"1000 bytes gone":   {slices.Concat(data[:at], data[at+1000:]), -1000},
		"a megabyte before": {slices.Concat(noise(4, 1<<20), data), 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			kept := 0
			after := cuts(c.edited)
			for _, x := range before {
				if slices.Contains(after, x+c.shift) || x < at && slices.Contains(after, x) {
					kept++
				}
			}
			if lost := len(before) - kept; lost > 8 { // each of them up to Max behind the edit
				t.Errorf("%d of %d cuts are lost", lost, len(before))
			}
		})
	}
}

func TestLists(t *testing.T) {
	pieces := []Piece{
		{ID: digest.Of([]byte("a")), Size: 5, Place: pack.Place{Pack: pack.Name{1}, Offset: 8, Stored: 5, Raw: 5}},
		{ID: digest.Of([]byte("b")), Size: 7, Place: pack.Place{Pack: pack.Name{2}, Offset: 1 << 30, Stored: 3, Raw: 7}},
	}
	id, blob := EncodeList(pieces)
	got, err := DecodeList(id, blob, 12)
	if d := cmp.Diff(pieces, got); d != "" || err != nil {
		t.Error(d, err)
	}
	moved := slices.Clone(pieces)
	moved[0].Place.Offset = 99
	if again, _ := EncodeList(moved); again != id {
		t.Error("its name depends on where the chunks lie")
	}
	if _, err := DecodeList(id, blob, 13); !errors.Is(err, pack.ErrDamaged) {
		t.Errorf("for a file of another length: %v", err)
	}
	for i := range blob {
		blob[i] ^= 2
		if _, err := DecodeList(id, blob, 12); !errors.Is(err, pack.ErrDamaged) {
			t.Errorf("byte %d flipped: %v", i, err)
		}
		blob[i] ^= 2
	}
}

func BenchmarkCut(b *testing.B) {
	data := noise(5, 64<<20)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		cuts(data)
	}
}
