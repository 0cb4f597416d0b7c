package data

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-dev/muster/internal/data/crafted"
)

// TestEveryTreeFileByFile: each file of a commit, opened and extracted by itself, is the same as in a
// checkout of the whole commit.
func TestEveryTreeFileByFile(t *testing.T) {
	p := newPlace(t)
	for m := range crafted.Trees(t, 30, 500) {
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
		crafted.Check(t, m, "is extracted", into)
		same(t, "file by file", m, held(t, p.Dataset, "main"))
	}
}
