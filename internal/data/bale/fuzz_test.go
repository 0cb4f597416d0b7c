package bale

import (
	"testing"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/pack"
)

// FuzzList: a list that is taken names packs that fit into the bale.
func FuzzList(f *testing.F) {
	key := pack.Name{1}.Key()
	f.Add([]byte(`[{"Key":"`+key+`","Size":3}]`), int64(3))
	f.Add([]byte(`[{"key":"`+key+`","size":9223372036854775807},{"key":"`+key+`","size":9223372036854775807},{"key":"`+key+`","size":2}]`), int64(9223372036854775807))
	f.Fuzz(func(t *testing.T, text []byte, content int64) {
		if content < 0 {
			return // no object has such a size
		}
		size := content + int64(len(text)) + int64(trailerSize)
		b, err := parse(backend.Info{Key: "bales/x", Size: size}, text)
		if err != nil {
			return
		}
		left := content
		for _, p := range b.Packs {
			if _, err := pack.ParseKey(p.Key); err != nil || p.Size < 0 || p.Size > left {
				t.Fatalf("%q of %d bytes of a bale has %q of %d", text, content, p.Key, p.Size)
			}
			left -= p.Size
		}
		if left != 0 {
			t.Fatalf("%d bytes of a bale are of no pack", left)
		}
	})
}
