package data

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/muster-dev/muster/internal/data/crafted"
)

// TestEveryTreeFileByFile: each file of a commit, opened and extracted by itself, is the same as in a
// checkout of the whole commit.
func TestEveryTreeFileByFile(t *testing.T) {
	trees := 500
	if testing.Short() {
		trees = 30
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 4))
	p := newPlace(t)
	for range trees {
		m := crafted.Random(random)
		tar, err := crafted.Pack(m)
		must(t, err)
		put(t, p.Dataset, "main", Tar(bytes.NewReader(tar)), AddOptions{Replace: true})
		v := view(t, p.Dataset, "main")
		into := filepath.Join(t.TempDir(), "into")
		must(t, os.Mkdir(into, 0o755))
		root, err := os.OpenRoot(into)
		must(t, err)
		for name := range m {
			path, _, _ := crafted.Parse(name)
			e, err := v.Stat(t.Context(), path)
			must(t, err)
			must(t, p.store.Extract(t.Context(), &e, root, path))
		}
		must(t, root.Close())
		got, err := crafted.Found(into)
		must(t, err)
		if says := crafted.Differ(m, got); says != "" {
			t.Fatalf("%v is extracted %s", m, says)
		}
		same(t, "file by file", m, held(t, p.Dataset, "main"))
	}
}
