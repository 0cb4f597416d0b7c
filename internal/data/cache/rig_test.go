package cache

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/digest"
	"github.com/muster-dev/muster/internal/data/ref"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// counted counts how many bytes are read of packs.
type counted struct {
	backend.Backend
	bytes atomic.Int64
	// gate, if set, is passed by every read.
	gate func(ctx context.Context) error
}

// ReadAt implements [backend.Backend].
func (c *counted) ReadAt(ctx context.Context, key string, offset int64, p []byte) error {
	if strings.HasPrefix(key, "packs/") {
		c.bytes.Add(int64(len(p)))
		if c.gate != nil {
			if err := c.gate(ctx); err != nil {
				return err
			}
		}
	}
	return c.Backend.ReadAt(ctx, key, offset, p)
}

// shop is a dataset, and a cache of it.
type shop struct {
	*testing.T
	bytes *counted
	set   *data.Dataset
	dir   string
	*Cache
}

func newShop(t *testing.T, o Options) *shop {
	t.Helper()
	s := &shop{T: t, bytes: &counted{Backend: &backend.Memory{}}, dir: filepath.Join(t.TempDir(), "cache")}
	store, err := data.Open(t.Context(), data.Options{Backend: s.bytes, Workers: 2})
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	s.set = store.Dataset(&ref.Memory{})
	s.open(o)
	return s
}

// open opens the cache as the next process would.
func (s *shop) open(o Options) {
	s.Helper()
	o.Dir = s.dir
	var err error
	s.Cache, err = Open(o)
	must(s.T, err)
}

// write writes files below a folder.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		mode := fs.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		must(t, os.WriteFile(path, []byte(content), mode))
	}
}

// put makes a branch hold some files, and is what it holds.
func (s *shop) put(branch string, files map[string]string) *data.View {
	s.Helper()
	src := s.TempDir()
	write(s.T, src, files)
	_, err := s.set.Put(s.Context(), branch, data.Folder(src), data.PutOptions{})
	must(s.T, err)
	v, err := s.set.At(s.Context(), branch)
	must(s.T, err)
	return v
}

// want has a part be there, and compares what is in it.
func (s *shop) want(v *data.View, path string, files map[string]string) (Folder, func()) {
	s.Helper()
	f, release, err := s.Ensure(s.Context(), v, path, nil)
	must(s.T, err)
	if diff := cmp.Diff(short(files), short(contents(s.T, f.Path))); diff != "" {
		s.Errorf("%q: %s", path, diff)
	}
	return f, release
}

// short has contents be short enough for messages.
func short(files map[string]string) map[string]string {
	out := map[string]string{}
	for name, content := range files {
		if len(content) > 64 {
			content = fmt.Sprintf("%d bytes %s", len(content), digest.Of([]byte(content)).Short())
		}
		out[name] = content
	}
	return out
}

// contents are the files below a folder; none of them may be written.
func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if info.Mode()&0o222 != 0 || (info.Mode()&0o100 != 0) != strings.HasSuffix(name, ".sh") {
			t.Errorf("%s has the rights %s", name, info.Mode())
		}
		content, err := os.ReadFile(path)
		got[name] = string(content)
		return err
	}))
	return got
}

// noise are bytes that no compression makes fewer.
func noise(seed uint64, n int) string {
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	b := make([]byte, n)
	_, _ = r.Read(b)
	return string(b)
}

// many are files of some kilobytes, and a long one.
func many(seed uint64) map[string]string {
	files := map[string]string{"long": noise(seed, 6<<20), "run.sh": "true\n", "empty": ""}
	for i := range 60 {
		files[fmt.Sprintf("%d/%d", i%3, i)] = noise(seed+uint64(i), 3000+i)
	}
	return files
}
