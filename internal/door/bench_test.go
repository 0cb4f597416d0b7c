package door

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

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
