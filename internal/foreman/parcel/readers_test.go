package parcel

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/muster-dev/muster/internal/data/crafted"
)

// TestEveryTree: a parcel lays out the same tree that the sender's folder had.
func TestEveryTree(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for m := range crafted.Trees(t, 50, 500) {
		top := t.TempDir()
		from, to := filepath.Join(top, "from"), filepath.Join(top, "to")
		must(os.MkdirAll(filepath.Join(from, "out"), 0o755))
		must(os.Mkdir(to, 0o755))
		must(crafted.Plant(filepath.Join(from, "out"), m))
		var sent bytes.Buffer
		must(Write(&sent, from, "out"))
		must(Read(&sent, to, Limits{}, "out"))
		crafted.Check(t, m, "comes", filepath.Join(to, "out"))
	}
}
