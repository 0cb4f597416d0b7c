package door

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/muster-dev/muster/internal/data/warehouse"
	"github.com/muster-dev/muster/internal/environment/source"
)

// BenchmarkCode sends 1,000 files of 4 KiB to the door, sends them again, and
// fetches them, over TLS on this machine and with a folder as the store.
func BenchmarkCode(b *testing.B) {
	h := open(b, true)
	dir, digest := b.TempDir(), ""
	fill := func(round int) {
		random := rand.NewChaCha8([32]byte{byte(round)})
		for i := range 1000 {
			data := make([]byte, 4096)
			_, _ = random.Read(data)
			h.must(os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%04d", i)), data, 0o644))
		}
		result, err := h.mine.Snapshot(b.Context(), dir, source.Options{})
		h.must(err)
		digest = result.Digest
	}
	ada, round := h.as("ada"), 0
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			round++
			fill(round)
			b.StartTimer()
			sent, err := ada.Send(b.Context(), "ada", h.mine, digest, nil)
			if err != nil || sent.Contents != 1000 {
				b.Fatal(sent, err)
			}
		}
	})
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			if sent, err := ada.Send(b.Context(), "ada", h.mine, digest, nil); err != nil || sent.Contents > 0 {
				b.Fatal(sent, err)
			}
		}
	})
	b.Run("fetch", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			h.must(ada.Fetch(b.Context(), "ada", digest, filepath.Join(b.TempDir(), fmt.Sprint(i))))
		}
	})
}

// BenchmarkObjects sends packs of 32 MiB to the door, four at a time as a session
// does, and reads parts of 4 MiB of one, twelve at a time, over TLS on this machine and
// with a folder as the store.
func BenchmarkObjects(b *testing.B) {
	h := open(b, true, func(o *Options) {
		var err error
		o.Data, err = warehouse.Open(warehouse.Options{Folder: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
	})
	pack := make([]byte, 32<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(pack)
	ada := h.as("ada").Data("ada")
	var last atomic.Int64
	b.Run("put", func(b *testing.B) {
		b.SetBytes(int64(len(pack)))
		b.SetParallelism(4)
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				h.must(ada.Put(b.Context(), packKey(fmt.Sprint(last.Add(1))), pack))
			}
		})
	})
	const part = 4 << 20
	b.Run("read", func(b *testing.B) {
		b.SetBytes(part)
		b.SetParallelism(12)
		b.RunParallel(func(p *testing.PB) {
			into := make([]byte, part)
			for p.Next() {
				h.must(ada.ReadAt(b.Context(), packKey("1"), part, into))
			}
		})
	})
}
