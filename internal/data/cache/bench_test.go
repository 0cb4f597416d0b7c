package cache

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/ref"
)

// BenchmarkSmallParts fetches parts of one small file each, as a pipeline of many
// small datums does.
func BenchmarkSmallParts(b *testing.B) {
	folder, err := backend.OpenFolder(filepath.Join(b.TempDir(), "store"))
	must(b, err)
	store, err := data.Open(b.Context(), data.Options{Backend: folder})
	must(b, err)
	b.Cleanup(func() { must(b, store.Close()) })
	files := map[string]string{}
	for i := range 2000 {
		files[fmt.Sprintf("%d/%d", i%10, i)] = fmt.Sprint(i)
	}
	set := store.Dataset(&ref.Memory{})
	src := b.TempDir()
	write(b, src, files)
	_, err = set.Put(b.Context(), "main", data.Folder(src), data.PutOptions{})
	must(b, err)
	v, err := set.At(b.Context(), "main")
	must(b, err)
	c, err := Open(Options{Dir: filepath.Join(b.TempDir(), "cache")})
	must(b, err)
	for i := 0; b.Loop(); i++ {
		n := i % 2000
		if n == 0 && i > 0 {
			c, err = Open(Options{Dir: filepath.Join(b.TempDir(), "cache")})
			must(b, err)
		}
		_, release, err := c.Ensure(b.Context(), v, fmt.Sprintf("%d/%d", n%10, n), nil)
		must(b, err)
		release()
	}
}
