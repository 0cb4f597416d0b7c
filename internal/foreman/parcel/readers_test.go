package parcel

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/data/crafted"
)

// TestEveryTree: a parcel lays out the same tree that the sender's folder had.
func TestEveryTree(t *testing.T) {
	trees := 500
	if testing.Short() {
		trees = 50
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 5))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for range trees {
		m, top := crafted.Random(random), t.TempDir()
		from, to := filepath.Join(top, "from"), filepath.Join(top, "to")
		must(os.MkdirAll(filepath.Join(from, "out"), 0o755))
		must(os.Mkdir(to, 0o755))
		must(crafted.Plant(filepath.Join(from, "out"), m))
		var sent bytes.Buffer
		must(Write(&sent, from, "out"))
		must(Read(&sent, to, Limits{}, "out"))
		got, err := crafted.Found(filepath.Join(to, "out"))
		must(err)
		if says := crafted.Differ(m, got); says != "" {
			t.Fatalf("%v comes %s", m, says)
		}
	}
}
