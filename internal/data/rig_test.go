package data

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/bale"
	"github.com/muster-dev/muster/internal/data/crafted"
	"github.com/muster-dev/muster/internal/data/ref"
	"github.com/muster-dev/muster/internal/data/tree"
)

// place is a dataset in memory, with what it lies in.
type place struct {
	*Dataset
	bytes *backend.Memory
	heads *ref.Memory
	cache string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{bytes: &backend.Memory{}, heads: &ref.Memory{}, cache: t.TempDir()}
	p.Dataset = p.open(t, p.bytes, p.heads)
	return p
}

// open opens the store as another process would.
func (p *place) open(t *testing.T, b backend.Backend, heads ref.Heads) *Dataset {
	t.Helper()
	s, err := Open(t.Context(), Options{Backend: bale.Over(b), Cache: p.cache, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	s.slack = 0
	s.joining = joining{small: 2 << 20, least: 1, full: 1 << 20, most: 9}
	return s.Dataset(heads)
}

// files writes files below a folder; a name that ends in a star is executable, one
// with an arrow a link.
func files(t *testing.T, dir string, m map[string]string) {
	t.Helper()
	for name, content := range m {
		name, target, link := strings.Cut(name, " -> ")
		mode := fs.FileMode(0o644)
		if strings.HasSuffix(name, "*") {
			name, mode = name[:len(name)-1], 0o755
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if link {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(content), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// folder reads what files writes.
func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	got, err := crafted.Found(dir)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// held is what a commit has, read file by file.
func held(t *testing.T, d *Dataset, reference string) map[string]string {
	t.Helper()
	got := map[string]string{}
	v, err := d.At(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	err = v.Walk(t.Context(), "", func(e Entry) error {
		if e.Kind == tree.Link {
			got[e.Path+" -> "+e.Target] = ""
			return nil
		}
		f, err := v.Open(t.Context(), e.Path)
		if err != nil {
			return err
		}
		content, err := io.ReadAll(f)
		name := e.Path
		if e.Executable {
			name += "*"
		}
		got[name] = string(content)
		return errors.Join(err, f.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func put(t *testing.T, d *Dataset, branch string, s Source, o AddOptions) PutResult {
	t.Helper()
	r, err := d.Put(t.Context(), branch, s, PutOptions{AddOptions: o, CommitOptions: CommitOptions{Author: "ada", Message: "m"}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func same(t *testing.T, what string, want, got map[string]string) {
	t.Helper()
	for name := range want {
		if g, ok := got[name]; ok && g != want[name] && len(g) > 1000 {
			t.Errorf("%s: %s has %d bytes, and not the %d that it should have", what, name, len(g), len(want[name]))
			return
		}
	}
	if d := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); d != "" {
		t.Errorf("%s: %s", what, d)
		return
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s: %s", what, d)
	}
}

func noise(seed uint64, n int) string {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = r.Read(b)
	return string(b)
}

// sample is a bit of everything.
func sample() map[string]string {
	m := map[string]string{
		"empty": "", "run.sh*": "#!/bin/sh\n", "a/b/c/d": "deep", "a/link -> b/c/d": "", "a.b": "between a and a/", "a-b": "x",
		"text": strings.Repeat("the same line again\n", 1000), "long": noise(1, 9<<20), "long text": strings.Repeat("0123456789abcde\n", 300_000),
		"edge": noise(2, small), "edge+1": noise(3, small+1),
	}
	for i := range 300 {
		m[fmt.Sprintf("many/%03d", i)] = fmt.Sprint("number ", i)
	}
	return m
}

func tarOf(t *testing.T, m map[string]string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for name, content := range m {
		h := &tar.Header{Name: "./" + name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}
		if name, target, link := strings.Cut(name, " -> "); link {
			h.Name, h.Linkname, h.Typeflag, h.Size = name, target, tar.TypeSymlink, 0
		} else if strings.HasSuffix(name, "*") {
			h.Name, h.Mode = name[:len(name)-1], 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}
